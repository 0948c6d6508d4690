package v1alpha1_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func TestMain(m *testing.M) {
	if err := webhostingv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	rig.Main(m, rig.Options{CRDs: []string{"examples/webhosting/config/crds"}})
}

// themes are valid and invalid. The schema and Validate must agree on them.
var themes = map[string]struct {
	webhostingv1alpha1.ThemeSpec
	want string // a part of the error, or empty
}{
	"a name":                 {webhostingv1alpha1.ThemeSpec{Color: "darkcyan", FontFamily: "Menlo"}, ""},
	"a name in capitals":     {webhostingv1alpha1.ThemeSpec{Color: "DarkCyan", FontFamily: "Menlo"}, ""},
	"three digits":           {webhostingv1alpha1.ThemeSpec{Color: "#0a8", FontFamily: "Menlo"}, ""},
	"four digits":            {webhostingv1alpha1.ThemeSpec{Color: "#0a8f", FontFamily: "Menlo"}, ""},
	"six digits":             {webhostingv1alpha1.ThemeSpec{Color: "#00AA88", FontFamily: "Menlo"}, ""},
	"eight digits":           {webhostingv1alpha1.ThemeSpec{Color: "#00aa88ff", FontFamily: "Menlo"}, ""},
	"two words":              {webhostingv1alpha1.ThemeSpec{Color: "red", FontFamily: "Comic Sans MS"}, ""},
	"several fonts":          {webhostingv1alpha1.ThemeSpec{Color: "red", FontFamily: "Fira Sans, Source-Code 4,Menlo"}, ""},
	"five digits":            {webhostingv1alpha1.ThemeSpec{Color: "#00aa8", FontFamily: "Menlo"}, "spec.color"},
	"no digits":              {webhostingv1alpha1.ThemeSpec{Color: "#", FontFamily: "Menlo"}, "spec.color"},
	"other letters":          {webhostingv1alpha1.ThemeSpec{Color: "#00aa8g", FontFamily: "Menlo"}, "spec.color"},
	"a function":             {webhostingv1alpha1.ThemeSpec{Color: "rgb(0,0,0)", FontFamily: "Menlo"}, "spec.color"},
	"a URL":                  {webhostingv1alpha1.ThemeSpec{Color: "url(//example.com)", FontFamily: "Menlo"}, "spec.color"},
	"one more property":      {webhostingv1alpha1.ThemeSpec{Color: "red; display: none", FontFamily: "Menlo"}, "spec.color"},
	"markup":                 {webhostingv1alpha1.ThemeSpec{Color: "</style>", FontFamily: "Menlo"}, "spec.color"},
	"a line break":           {webhostingv1alpha1.ThemeSpec{Color: "red\n", FontFamily: "Menlo"}, "spec.color"},
	"no color":               {webhostingv1alpha1.ThemeSpec{FontFamily: "Menlo"}, "spec.color"},
	"a very long color":      {webhostingv1alpha1.ThemeSpec{Color: strings.Repeat("a", 33), FontFamily: "Menlo"}, "spec.color"},
	"a quoted font":          {webhostingv1alpha1.ThemeSpec{Color: "red", FontFamily: `"Fira Sans"`}, "spec.fontFamily"},
	"an apostrophe":          {webhostingv1alpha1.ThemeSpec{Color: "red", FontFamily: "Fira's"}, "spec.fontFamily"},
	"a semicolon":            {webhostingv1alpha1.ThemeSpec{Color: "red", FontFamily: "Menlo; display: none"}, "spec.fontFamily"},
	"markup in a font":       {webhostingv1alpha1.ThemeSpec{Color: "red", FontFamily: "<b>"}, "spec.fontFamily"},
	"a comma at the end":     {webhostingv1alpha1.ThemeSpec{Color: "red", FontFamily: "Menlo,"}, "spec.fontFamily"},
	"two hyphens":            {webhostingv1alpha1.ThemeSpec{Color: "red", FontFamily: "a--b"}, "spec.fontFamily"},
	"no font":                {webhostingv1alpha1.ThemeSpec{Color: "red"}, "spec.fontFamily"},
	"a line break in a font": {webhostingv1alpha1.ThemeSpec{Color: "red", FontFamily: "Menlo\nArial"}, "spec.fontFamily"},
	"a very long font":       {webhostingv1alpha1.ThemeSpec{Color: "red", FontFamily: strings.Repeat("a", 129)}, "spec.fontFamily"},
}

// TestThemes compares the schema, on a real API server, with Validate.
func TestThemes(t *testing.T) {
	r := rig.Shared(t)
	for name, test := range themes {
		t.Run(name, func(t *testing.T) {
			theme := &webhostingv1alpha1.Theme{ObjectMeta: metav1.ObjectMeta{GenerateName: "theme-"}, Spec: test.ThemeSpec}
			expectError(t, r.Client.Create(t.Context(), theme), test.want)
			if err := test.Validate(); (err != nil) != (test.want != "") {
				t.Errorf("Validate returns %v", err)
			}
		})
	}
}

// TestWebsites does the same for Websites.
func TestWebsites(t *testing.T) {
	r := rig.Shared(t)
	for name, test := range map[string]struct{ theme, want string }{
		"valid":           {"exciting", ""},
		"with dots":       {"exciting.v2", ""},
		"the longest":     {strings.Repeat("a", 253), ""},
		"none":            {"", "spec.theme"},
		"too long":        {strings.Repeat("a", 254), "spec.theme"},
		"in capitals":     {"Exciting", "spec.theme"},
		"with a slash":    {"../secret", "spec.theme"},
		"with a hyphen":   {"-exciting", "spec.theme"},
		"with dots alone": {"..", "spec.theme"},
	} {
		t.Run(name, func(t *testing.T) {
			website := &webhostingv1alpha1.Website{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "website-", Namespace: r.Namespace},
				Spec:       webhostingv1alpha1.WebsiteSpec{Theme: test.theme},
			}
			expectError(t, r.Client.Create(t.Context(), website), test.want)
			if err := website.Spec.Validate(); (err != nil) != (test.want != "") {
				t.Errorf("Validate returns %v", err)
			}
		})
	}
}

// TestStatus checks the schema of the status.
func TestStatus(t *testing.T) {
	r := rig.Shared(t)
	website := &webhostingv1alpha1.Website{
		ObjectMeta: metav1.ObjectMeta{Name: "homepage", Namespace: r.Namespace},
		Spec:       webhostingv1alpha1.WebsiteSpec{Theme: "exciting"},
	}
	if err := r.Client.Create(t.Context(), website); err != nil {
		t.Fatal(err)
	}
	for _, phase := range []string{"Pending", "Ready", "Error", "Terminating"} {
		website.Status.Phase = webhostingv1alpha1.Phase(phase)
		expectError(t, r.Client.Status().Update(t.Context(), website), "")
	}
	before := website.Generation
	website.Status.Phase = "Happy"
	expectError(t, r.Client.Status().Update(t.Context(), website), "status.phase")
	website.Status.Phase = "Ready"
	for i := range 9 {
		website.Status.Conditions = append(website.Status.Conditions, metav1.Condition{
			Type: strings.Repeat("A", i+1), Status: metav1.ConditionTrue, Reason: "B", LastTransitionTime: metav1.Now(),
		})
	}
	expectError(t, r.Client.Status().Update(t.Context(), website), "Too many")
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(website), website); err != nil || website.Generation != before {
		t.Errorf("an update of the status changed the generation: %v, generation %d", err, website.Generation)
	}
}

func expectError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Error(err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want %q", err, want)
	}
}

// TestColumns reads the columns of 'kubectl get websites'.
func TestColumns(t *testing.T) {
	r := rig.Shared(t)
	found, err := r.Clientset.Discovery().RESTClient().Get().
		AbsPath("/apis/webhosting.timebertt.dev/v1alpha1/websites").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	table := &metav1.Table{}
	if err := json.Unmarshal(found, table); err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			columns = append(columns, column.Name)
		}
	}
	if diff := cmp.Diff([]string{"Name", "Theme", "Phase", "Since", "Age"}, columns); diff != "" {
		t.Error(diff)
	}
}
