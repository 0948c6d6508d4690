package keys_test

import (
	"testing"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/keys"
)

func TestWithin(t *testing.T) {
	for key, want := range map[string]bool{
		"a/dc1": true, "a/dc1/x": true, "a/dc1/x/y": true,
		"a/dc10": false, "a/dc10/x": false, "a/dc1-x": false, "a/dc1.x/y": false, "a/dc": false, "a": false, "": false,
	} {
		if got := keys.Within("a/dc1", key); got != want {
			t.Errorf("%q is at or below a/dc1: %t", key, got)
		}
	}
}

func TestCheck(t *testing.T) {
	one := func(operations ...coordination.Operation) coordination.Transaction {
		return coordination.Transaction{Then: operations}
	}
	for name, test := range map[string]struct {
		transaction coordination.Transaction
		good        bool
	}{
		"nothing":                    {coordination.Transaction{}, true},
		"a put and a delete":         {one(coordination.Put("a", ""), coordination.Delete("b")), true},
		"a put beside a delete":      {one(coordination.Put("a/dc10", ""), coordination.DeleteBelow("a/dc1")), true},
		"a put above a delete":       {one(coordination.Put("a", ""), coordination.DeleteBelow("a/b")), true},
		"a put below a plain delete": {one(coordination.Put("a/b", ""), coordination.Delete("a")), true},
		"two deletes":                {one(coordination.Delete("a/b"), coordination.DeleteBelow("a")), true},
		"a put below a delete":       {one(coordination.Put("a/b", ""), coordination.DeleteBelow("a")), false},
		"a put at a delete":          {one(coordination.Delete("a"), coordination.Put("a", "")), false},
		"two puts":                   {one(coordination.Put("a", ""), coordination.Put("a", "")), false},
		"a slash at the end":         {one(coordination.Delete("a/")), false},
		"no UTF-8 in a key":          {one(coordination.Delete("\xff")), false},
		"no UTF-8 in a value":        {one(coordination.Put("a", "\xff")), false},
		"a key and a path":           {coordination.Transaction{If: []coordination.Condition{{Key: "a", Path: "b"}}}, false},
		"neither key nor path":       {coordination.Transaction{If: []coordination.Condition{{Version: 1}}}, false},
	} {
		if err := keys.Check(test.transaction); (err == nil) != test.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
