package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Theme is the style of Websites. Themes are cluster-scoped, and Websites of all namespaces may
// refer to them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Color",type=string,JSONPath=`.spec.color`
// +kubebuilder:printcolumn:name="Font",type=string,JSONPath=`.spec.fontFamily`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Theme struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the style of the pages.
	// +required
	Spec ThemeSpec `json:"spec"`
}

// ThemeList is a list of Themes.
//
// +kubebuilder:object:root=true
type ThemeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Theme `json:"items"`
}

// ThemeSpec is the style of pages.
type ThemeSpec struct {
	// Color is the background color of the pages: a CSS color name, such as darkcyan, or a
	// hexadecimal color, such as #0a8 or #00aa88.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([A-Za-z]+|#[0-9A-Fa-f]{3}|#[0-9A-Fa-f]{4}|#[0-9A-Fa-f]{6}|#[0-9A-Fa-f]{8})$`
	Color string `json:"color"`
	// FontFamily is a comma-separated list of fonts, in order of preference. Names consist of
	// letters, digits, spaces and hyphens, without quotes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]+([ -][A-Za-z0-9]+)*(, ?[A-Za-z0-9]+([ -][A-Za-z0-9]+)*)*$`
	FontFamily string `json:"fontFamily"`
}
