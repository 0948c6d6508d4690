package rings

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// matchConditionName is the name of the one match condition of a ring's webhook.
const matchConditionName = "main-or-controlled"

// matchExpression returns the CEL expression by which API servers skip objects of controlled resources without a
// controller in the ring, such as most ConfigMaps of a cluster. Main objects always match. It is empty for a ring
// without controlled resources.
//
// It is evaluated for every request for an object of a controlled resource, most of which are not in the ring.
// Therefore it reads object and not request, which would cost more than everything else. For an equivalent resource
// of another API group, object is converted to the kind of the rule; request.resource is not.
func matchExpression(resources []catalog.Resource) string {
	var mains, controlled []schema.GroupKind
	children := map[schema.GroupKind][]schema.GroupKind{}
	for i := range resources {
		kind := resources[i].Kind.GroupKind
		if resources[i].Main() {
			mains = append(mains, kind)
			continue
		}
		controlled = append(controlled, kind)
		for _, controller := range resources[i].Controllers {
			children[controller.GroupKind] = append(children[controller.GroupKind], kind)
		}
	}
	if len(controlled) == 0 {
		return ""
	}
	var owners []string
	var ofAll []schema.GroupKind // the main resources that control all controlled resources
	for _, main := range mains {
		switch len(children[main]) {
		case 0:
		case len(controlled):
			ofAll = append(ofAll, main)
		default:
			owners = append(owners, fmt.Sprintf("%s && (%s)", ofKind("o", main), ofKind("object", children[main]...)))
		}
	}
	if len(ofAll) > 0 {
		owners = append([]string{ofKind("o", ofAll...)}, owners...)
	}
	return fmt.Sprintf("%s ||\nhas(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o,\n"+
		"has(o.controller) && o.controller && (%s))", ofKind("object", mains...), strings.Join(owners, " ||\n"))
}

// ofKind reports whether an object or an owner reference is of one of these kinds, in any version.
func ofKind(variable string, kinds ...schema.GroupKind) string {
	groups := map[string][]string{}
	for _, kind := range kinds {
		groups[kind.Group] = append(groups[kind.Group], strconv.Quote(kind.Kind))
	}
	var all []string
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		inGroup := fmt.Sprintf("%s.apiVersion.startsWith(%q)", variable, group+"/")
		if group == "" {
			inGroup = fmt.Sprintf("!%s.apiVersion.contains(%q)", variable, "/")
		}
		ofOne := fmt.Sprintf("%s.kind == %s", variable, groups[group][0])
		if len(groups[group]) > 1 {
			ofOne = fmt.Sprintf("%s.kind in [%s]", variable, strings.Join(groups[group], ", "))
		}
		all = append(all, ofOne+" && "+inGroup)
	}
	return strings.Join(all, " ||\n")
}
