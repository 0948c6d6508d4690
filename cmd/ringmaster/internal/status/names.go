package status

import (
	"fmt"
	"strings"
)

// Name names an object in arguments: a type as for kubectl, and a name.
type Name struct{ Type, Name string }

// ParseNames parses arguments as kubectl does: TYPE/NAME each, or one TYPE and names.
func ParseNames(args []string) ([]Name, error) {
	var names []Name
	for i, arg := range args {
		kind, name, slash := strings.Cut(arg, "/")
		switch {
		case slash != strings.Contains(args[0], "/"):
			return nil, fmt.Errorf("%q: use TYPE/NAME for each object, or one TYPE followed by names", arg)
		case slash && (kind == "" || name == "" || strings.Contains(name, "/")):
			return nil, fmt.Errorf("%q: use TYPE/NAME, and -n for the namespace", arg)
		case slash:
			names = append(names, Name{kind, name})
		case i > 0:
			names = append(names, Name{args[0], arg})
		}
	}
	return names, nil
}
