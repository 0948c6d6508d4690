package status

import (
	"fmt"
	"strings"
)

// Name is an object as somebody wrote it: a type as kubectl takes it, and a name.
type Name struct{ Type, Name string }

// ParseNames reads objects as kubectl takes them: TYPE/NAME each, or one TYPE and names.
func ParseNames(args []string) ([]Name, error) {
	var names []Name
	for i, arg := range args {
		kind, name, slash := strings.Cut(arg, "/")
		switch {
		case slash != strings.Contains(args[0], "/"):
			return nil, fmt.Errorf("%q: name objects as TYPE/NAME each, or as one TYPE and their names", arg)
		case slash && (kind == "" || name == "" || strings.Contains(name, "/")):
			return nil, fmt.Errorf("%q: name an object as TYPE/NAME, and its namespace with -n", arg)
		case slash:
			names = append(names, Name{kind, name})
		case i > 0:
			names = append(names, Name{args[0], arg})
		}
	}
	return names, nil
}
