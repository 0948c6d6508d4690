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

// matchExpression is the CEL expression with which API servers leave out objects of controlled resources that
// have no controller in the ring: all ConfigMaps of a cluster, say, but those of the ring's main objects. Main
// objects always match. A ring without controlled resources needs none: "".
//
// It is evaluated for every request for an object of a controlled resource, and most of those are not the ring's.
// So it reads object and not request, which costs more than all the rest. For an equivalent resource of another
// API group, object is the converted one, of the rule's kind; request.resource is not.
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

// ofKind is whether an object or an owner reference is of one of these kinds, in whatever version.
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
