package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// moment is what the operators had said at one revision of the store.
type moment struct {
	Lock   *coordination.Lock
	Token  int64
	Intent *coordination.Intent
	// Done are by their keys, denied by the names of the instances.
	Done   map[string]coordination.Done
	denied map[string]bool
	// ended tells whether a session is over, for stores that may give what it had to another one at once.
	ended func(session string) bool
}

// momentOf understands the entries below the root.
func momentOf(entries map[string]string) (moment, error) {
	now := moment{Done: map[string]coordination.Done{}, denied: map[string]bool{}, ended: func(string) bool { return false }}
	for key, value := range entries {
		var err error
		switch kind, rest, _ := strings.Cut(key, "/"); kind {
		case "lock":
			err = json.Unmarshal([]byte(value), &now.Lock)
		case "token":
			err = json.Unmarshal([]byte(value), &now.Token)
		case "intent":
			err = json.Unmarshal([]byte(value), &now.Intent)
		case "done":
			var done coordination.Done
			err = json.Unmarshal([]byte(value), &done)
			now.Done[rest] = done
		case "denied":
			_, name, _ := strings.Cut(rest, "/")
			now.denied[name] = true
		}
		if err != nil {
			return now, fmt.Errorf("reading %s: %w", key, err)
		}
	}
	return now, nil
}

// history goes through all that was ever written, one revision after the other, and names what should not be: tokens only
// grow, a holder is followed by another one only after it has lost the lock, nothing is written under another token than
// that of the lock, and what was begun is done, and done once.
type history struct {
	last moment
	// at is where each intent was last, done are those that have ended.
	at     map[int64]int
	done   map[int64]bool
	grants int
	wrong  []string
}

func newHistory() *history { return &history{at: map[int64]int{}, done: map[int64]bool{}} }

func (h *history) note(format string, args ...any) {
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

// next takes the moment after the one before.
func (h *history) next(now moment) {
	before := h.last
	h.last = now
	h.takeToken(before, now)
	h.takeLock(before, now)
	h.takeIntent(before, now)
	h.takeDone(before, now)
}

func (h *history) takeToken(before, now moment) {
	if now.Token < before.Token {
		h.note("the token %d is followed by %d", before.Token, now.Token)
	}
	if now.Token != before.Token && (now.Lock == nil || now.Lock.Token != now.Token) {
		h.note("the token %d is written without its lock", now.Token)
	}
}

func (h *history) takeLock(before, now moment) {
	if now.Lock == nil || before.Lock != nil && *before.Lock == *now.Lock {
		return
	}
	h.grants++
	if now.Lock.Token <= before.Token {
		h.note("%s gets the lock with the token %d after %d", now.Lock.Holder, now.Lock.Token, before.Token)
	}
	if now.Lock.Token != now.Token {
		h.note("%s gets the lock with the token %d, and the newest is %d", now.Lock.Holder, now.Lock.Token, now.Token)
	}
	if lost := before.Lock; lost != nil && lost.Session != now.Lock.Session && !before.denied[lost.Holder] && !now.ended(lost.Session) {
		h.note("%s takes the lock of %s with the token %d", now.Lock.Holder, lost.Holder, lost.Token)
	}
}

func (h *history) takeIntent(before, now moment) {
	if left := before.Intent; left != nil && (now.Intent == nil || now.Intent.ID != left.ID) && !now.says(left.ID) {
		h.note("the intent %d is gone, and nobody says that it is done", left.ID)
	}
	intent := now.Intent
	if intent == nil || reflect.DeepEqual(before.Intent, intent) {
		return
	}
	if now.Lock == nil || intent.Token != now.Lock.Token || intent.By != now.Lock.Holder {
		h.note("%s writes the intent %d under the token %d, and the lock is %v", intent.By, intent.ID, intent.Token, now.Lock)
	}
	if intent.At < h.at[intent.ID] {
		h.note("the intent %d is at step %d after step %d", intent.ID, intent.At, h.at[intent.ID])
	}
	if h.done[intent.ID] {
		h.note("the intent %d is written again after it was done", intent.ID)
	}
	h.at[intent.ID] = intent.At
}

// says tells whether there is a record that something is done.
func (m moment) says(intent int64) bool {
	for _, done := range m.Done {
		if done.ID == intent {
			return true
		}
	}
	return false
}

func (h *history) takeDone(before, now moment) {
	for key, done := range now.Done {
		if was, known := before.Done[key]; known {
			if !reflect.DeepEqual(was, done) {
				h.note("what was said of %d is changed", done.ID)
			}
			continue
		}
		if before.Lock == nil || done.Token != before.Lock.Token {
			h.note("%d is done under the token %d, and the lock was %v", done.ID, done.Token, before.Lock)
		}
		if h.done[done.ID] {
			h.note("%d is done twice", done.ID)
		}
		h.done[done.ID] = true
	}
}
