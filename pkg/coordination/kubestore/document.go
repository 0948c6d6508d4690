package kubestore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

const (
	// stateKey is the key of the state in the ConfigMap.
	stateKey = "state"
	// maxSize is the maximum size of a ConfigMap.
	maxSize = corev1.MaxSecretSize
)

// document is a state together with the ConfigMap that it was read from.
type document struct {
	*state
	// object has an empty resourceVersion if the ConfigMap does not exist yet.
	object *corev1.ConfigMap
}

// read reads the current ConfigMap: without a resourceVersion the response is not older than the request.
func (s *store) read(ctx context.Context) (*document, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	own := s.ownSessions()
	object, err := s.configMaps.Get(ctx, s.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		object, err = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the ConfigMap %s/%s: %w", s.namespace, s.name, err)
	}
	current, err := s.decode(object)
	if err != nil {
		return nil, err
	}
	for _, session := range own {
		if _, alive := current.Sessions[session.id]; !alive {
			session.MarkLost() // for example because the Lease or the ConfigMap was deleted
			s.removeSession(session)
		}
	}
	return &document{state: current, object: object}, nil
}

func (s *store) decode(object *corev1.ConfigMap) (*state, error) {
	current, err := decode(object.Data[stateKey])
	if err != nil {
		return nil, fmt.Errorf("decoding the state in the ConfigMap %s/%s; correct it: %w", s.namespace, s.name, err)
	}
	return current, nil
}

// update reads the state, calls decide to change it, and writes it, until it succeeds without a conflict. Decide reports whether it has changed
// the state, and may be called several times. Reserve is the one of kv.Transaction.
func (s *store) update(ctx context.Context, reserve int, decide func(*state) (bool, error)) (int64, error) {
	for tries := 0; ; tries++ {
		current, err := s.read(ctx)
		if err != nil {
			return 0, err
		}
		changed, err := decide(current.state)
		if err != nil || !changed {
			return current.Revision, err
		}
		err = s.write(ctx, current, reserve)
		if err == nil {
			return current.Revision, nil
		}
		if !isRetriable(err) {
			return 0, err
		}
		if err := s.waitBeforeRetry(ctx, tries); err != nil {
			return 0, fmt.Errorf("writing the ConfigMap %s/%s after %d conflicts: %w", s.namespace, s.name, tries+1, err)
		}
	}
}

// isRetriable reports whether the API server has certainly not written the ConfigMap, and may do so the next time: it was written,
// created or deleted since it was read, or there were too many requests.
func isRetriable(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err)
}

// waitBeforeRetry waits with jitter, so that concurrent writers do not conflict again.
func (s *store) waitBeforeRetry(ctx context.Context, tries int) error {
	const unit, maxUnits = 10 * time.Millisecond, 5
	timer := s.clock.NewTimer(rand.N(unit << min(tries, maxUnits)))
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write writes the document if the ConfigMap is unchanged. It is sent only once: client-go retries some requests that the server may have
// carried out, and would then report a conflict with this process's own write.
func (s *store) write(ctx context.Context, changed *document, reserve int) error {
	text, err := changed.encode()
	if err != nil {
		return fmt.Errorf("encoding the state: %w", err)
	}
	if limit := maxSize / 100 * (100 - reserve); len(text) > limit && len(text) > len(changed.object.Data[stateKey]) {
		return s.tooLargeError(len(text), limit)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	object := changed.object.DeepCopy()
	if object.Data == nil {
		object.Data = map[string]string{}
	}
	object.Data[stateKey] = text
	request := s.core.RESTClient().Post()
	if object.ResourceVersion != "" {
		request = s.core.RESTClient().Put().Name(s.name)
	}
	err = request.Namespace(s.namespace).Resource("configmaps").MaxRetries(0).Body(object).Do(ctx).Error()
	switch {
	case err == nil:
		return nil
	case apierrors.IsRequestEntityTooLargeError(err):
		return fmt.Errorf("%w: %w", s.tooLargeError(len(text), maxSize), err)
	}
	return fmt.Errorf("writing the ConfigMap %s/%s: %w", s.namespace, s.name, err)
}

func (s *store) tooLargeError(size, limit int) error {
	const kept = "; the rest is reserved for the writes that end an action"
	text := fmt.Sprintf("the ConfigMap %s/%s would have %d bytes, and is limited to %d", s.namespace, s.name, size, limit)
	if limit < maxSize/100*100 {
		text += kept
	}
	return fmt.Errorf("%w: %s: wait until the pending actions are done, remove the entries of participants that are gone "+
		"(ringmaster coordination status shows it), or use etcdstore", kv.ErrTooLarge, text)
}
