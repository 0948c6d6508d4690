package keys_test

import (
	"testing"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/internal/keys"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
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
	one := func(operations ...kv.Operation) kv.Transaction {
		return kv.Transaction{Then: operations}
	}
	for name, test := range map[string]struct {
		transaction kv.Transaction
		good        bool
	}{
		"nothing":                    {kv.Transaction{}, true},
		"a put and a delete":         {one(kv.Put("a", ""), kv.Delete("b")), true},
		"a put beside a delete":      {one(kv.Put("a/dc10", ""), kv.DeleteBelow("a/dc1")), true},
		"a put above a delete":       {one(kv.Put("a", ""), kv.DeleteBelow("a/b")), true},
		"a put below a plain delete": {one(kv.Put("a/b", ""), kv.Delete("a")), true},
		"two deletes":                {one(kv.Delete("a/b"), kv.DeleteBelow("a")), true},
		"a put below a delete":       {one(kv.Put("a/b", ""), kv.DeleteBelow("a")), false},
		"a put at a delete":          {one(kv.Delete("a"), kv.Put("a", "")), false},
		"two puts":                   {one(kv.Put("a", ""), kv.Put("a", "")), false},
		"a slash at the end":         {one(kv.Delete("a/")), false},
		"no UTF-8 in a key":          {one(kv.Delete("\xff")), false},
		"no UTF-8 in a value":        {one(kv.Put("a", "\xff")), false},
		"a key and a path":           {kv.Transaction{If: []kv.Condition{{Key: "a", Path: "b"}}}, false},
		"neither key nor path":       {kv.Transaction{If: []kv.Condition{{Version: 1}}}, false},
	} {
		if err := keys.Check(test.transaction); (err == nil) != test.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
