package run

import (
	"slices"
	"time"

	"github.com/ringmaster-project/ringmaster/experiment/history"
	"github.com/ringmaster-project/ringmaster/internal/stats"
)

// kill is an instance that was killed, and the Websites that it owned then.
type kill struct {
	at       time.Time
	instance string
	websites []string
}

// Recovery is how the Websites of a killed instance came back: the time from SIGKILL until each of them was reconciled to the end
// by another instance.
type Recovery struct {
	At       time.Time `json:"at"`
	Instance string    `json:"instance"`
	Websites int       `json:"websites"`
	// P50 and Max are in seconds. Max is the time to recovery: until the last one.
	P50 float64 `json:"p50"`
	Max float64 `json:"max"`
	// Missing is the number of Websites that were not reconciled again until the end of the run.
	Missing int `json:"missing,omitempty"`
}

// recoveries returns the recovery after each kill. Websites that were deleted meanwhile do not count; existing are those that remain.
// Without shard labels, only the instance that has reconciled last has owned Websites: the others were standbys.
func recoveries(lines []history.Line, kills []kill, existing []string, labelled bool) []Recovery {
	var all []Recovery
	exists := map[string]bool{}
	for _, website := range existing {
		exists[website] = true
	}
	for _, k := range kills {
		if !labelled && history.LastBefore(lines, k.at) != k.instance {
			continue
		}
		took, missing := history.Recovery(lines, k.instance, k.at, k.websites)
		missing = slices.DeleteFunc(missing, func(website string) bool { return !exists[website] })
		if len(took)+len(missing) == 0 {
			continue
		}
		all = append(all, Recovery{
			At: k.at, Instance: k.instance, Websites: len(took) + len(missing),
			P50: stats.Median(took).Seconds(), Max: stats.Quantile(took, 1).Seconds(), Missing: len(missing),
		})
	}
	return all
}

// killing records an instance that is about to be killed.
func (r *run) killing(instance string) {
	owned := r.load.Owned(instance)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kills = append(r.kills, kill{time.Now(), instance, owned})
}
