//go:build !linux

package membership

import "time"

func sinceBoot() time.Duration { return sinceStart() }
