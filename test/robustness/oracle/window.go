package oracle

import (
	"slices"
	"time"
)

// Window is a half-open interval of time.
type Window struct{ From, To time.Time }

func (w Window) length() time.Duration { return w.To.Sub(w.From) }

func (w Window) contains(t time.Time) bool { return !t.Before(w.From) && t.Before(w.To) }

// windows are ordered and disjoint.
type windows []Window

// union returns the time in any of the windows.
func union(all ...Window) windows {
	all = slices.DeleteFunc(slices.Clone(all), func(w Window) bool { return w.length() <= 0 })
	slices.SortFunc(all, func(a, b Window) int { return a.From.Compare(b.From) })
	var merged windows
	for _, w := range all {
		if last := len(merged) - 1; last >= 0 && !w.From.After(merged[last].To) {
			merged[last].To = later(merged[last].To, w.To)
			continue
		}
		merged = append(merged, w)
	}
	return merged
}

// and returns the time in both.
func (a windows) and(b windows) windows {
	var both []Window
	for _, x := range a {
		for _, y := range b {
			both = append(both, Window{later(x.From, y.From), earlier(x.To, y.To)})
		}
	}
	return union(both...)
}

// without returns the time in a and not in b.
func (a windows) without(b windows) windows {
	var left []Window
	for _, x := range a {
		for _, y := range b {
			if y.To.After(x.From) && y.From.Before(x.To) {
				left = append(left, Window{x.From, earlier(x.To, y.From)})
				x.From = later(x.From, y.To)
			}
		}
		left = append(left, x)
	}
	return union(left...)
}

// longest returns the longest of the windows, or an empty one.
func (a windows) longest() Window {
	var longest Window
	for _, w := range a {
		if w.length() > longest.length() {
			longest = w
		}
	}
	return longest
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
