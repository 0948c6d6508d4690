package website

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// maxName is what names of Services and values of labels may have.
const maxName = 63

// ServerName is the technical name of a Website, and the name of all its objects. It is the Website's with
// something of its full name's digest, so that no two have the same, and it is a valid name of a Service,
// which has no dots and begins with a letter, also where the Website's is not.
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

// Path is where a Website is served.
func Path(website types.NamespacedName) string { return "/" + website.Namespace + "/" + website.Name }
