// Package access lets only those read metrics whom the API server knows and allows to.
//
// controller-runtime has such a filter, but it brings k8s.io/apiserver along: 20 MB of program, of
// which the sharder needs two calls, and a third of its memory.
package access

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	// timeout is how long to wait for the API server.
	timeout = 10 * time.Second
	// allowedFor and deniedFor are how long an answer is good for, so that whoever asks again and
	// again asks us and not the API server.
	allowedFor, deniedFor = time.Minute, 10 * time.Second
	// remembered is how many answers are kept.
	remembered = 256
)

// Filter asks the API server who a token belongs to and whether they may get the path.
func Filter(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
	authentication, err := authenticationv1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	authorization, err := authorizationv1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	door := &door{
		tokens: authentication.TokenReviews(), access: authorization.SubjectAccessReviews(),
		answers: cache.NewLRUExpireCache(remembered),
	}
	return func(log logr.Logger, handler http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			status, err := door.check(request)
			if err != nil {
				log.Error(err, "Could not authorize a request for metrics")
			}
			if status != http.StatusOK {
				http.Error(w, http.StatusText(status), status)
				return
			}
			handler.ServeHTTP(w, request)
		}), nil
	}, nil
}

type door struct {
	tokens  authenticationv1client.TokenReviewInterface
	access  authorizationv1client.SubjectAccessReviewInterface
	answers *cache.LRUExpireCache
}

// question is what an answer is remembered for.
type question struct {
	token        [sha256.Size]byte
	method, path string
}

// check returns the status to answer with.
func (d *door) check(request *http.Request) (int, error) {
	token, found := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	if token = strings.TrimSpace(token); !found || token == "" {
		return http.StatusUnauthorized, nil
	}
	asked := question{sha256.Sum256([]byte(token)), request.Method, request.URL.Path}
	if answer, known := d.answers.Get(asked); known {
		return answer.(int), nil
	}
	ctx, cancel := context.WithTimeout(request.Context(), timeout)
	defer cancel()
	status, err := d.ask(ctx, token, request)
	if err != nil {
		return http.StatusInternalServerError, err
	}
	good := deniedFor
	if status == http.StatusOK {
		good = allowedFor
	}
	d.answers.Add(asked, status, good)
	return status, nil
}

func (d *door) ask(ctx context.Context, token string, request *http.Request) (int, error) {
	who, err := d.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for name, values := range who.Status.User.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	may, err := d.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.Status.User.Username, UID: who.Status.User.UID, Groups: who.Status.User.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: request.URL.Path, Verb: strings.ToLower(request.Method)},
	}}, metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
