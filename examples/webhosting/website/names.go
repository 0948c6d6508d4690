package website

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// maxName is the maximum length of names of Services and of values of labels.
const maxName = 63

// ServerName returns the name of the children of a Website. It is the name of the Website with a
// part of the digest of its namespace and name, so that it is unique, and it is always a valid name
// of a Service: without dots, and with a letter first.
func ServerName(website types.NamespacedName) string {
	const digits = 8
	sum := sha256.Sum256([]byte(website.String()))
	digest := hex.EncodeToString(sum[:])[:digits]
	name := strings.ReplaceAll(website.Name, ".", "-")
	if name == "" || name[0] < 'a' || name[0] > 'z' {
		name = "w-" + name
	}
	name = name[:min(len(name), maxName-digits-1)]
	return strings.TrimRight(name, "-") + "-" + digest
}

// Path returns the URL path of a Website.
func Path(website types.NamespacedName) string { return "/" + website.Namespace + "/" + website.Name }
