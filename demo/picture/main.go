//go:build unix

// Command picture draws the picture of the live view in the README: it runs 'ringmaster up' on a
// pseudo-terminal, presses keys, and draws the terminal's contents as an animated SVG.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const width, height = 118, 34

func main() {
	ringmaster := flag.String("ringmaster", "bin/ringmaster", "path of the ringmaster program")
	assets := flag.String("assets", "bin/kubernetes", "folder with the programs of Kubernetes")
	out := flag.String("o", "docs/pictures/live.svg", "file to write")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *ringmaster, *assets, *out)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, ringmaster, assets, out string) error {
	r, err := record(ctx, ringmaster, assets, width, height)
	if err != nil {
		return err
	}
	frames, err := play(ctx, r)
	if err := errors.Join(err, r.stop()); err != nil {
		return fmt.Errorf("%w; the terminal shows:\n%s", err, r.text())
	}
	if err := os.WriteFile(out, []byte(draw(frames)), 0o644); err != nil {
		return fmt.Errorf("writing the picture: %w", err)
	}
	return nil
}

// step is a frame of the picture: what the terminal must show, the keys to press then, the caption,
// and its duration.
type step struct {
	pattern, keys, caption string
	duration               time.Duration
}

// play kills an instance, waits for the failover and the restart, and adds a fourth instance.
func play(ctx context.Context, r *recorder) ([]frame, error) {
	const short, long = 1200 * time.Millisecond, 3500 * time.Millisecond
	steps := []step{
		{`3 of 3 shards ready · 60 websites, 60 ready`, "2", "all shards are ready", long},
		{`› 2 webhosting-operator-1 running`, "k", "an instance is killed", short},
		{`restart in 20s +ready`, "", "its Lease has not expired yet", long},
		{`restart in \ds +expired`, "", "its Lease has expired", long},
		{`restart in \ds +dead(.*\n)+Moves  [1-9]`, "", "failover: its websites move to the others", long},
		{`restart in \ds +dead .* 0 +killed`, "", "all websites have an owner again", long},
		{` · \d+ draining\n(.*\n)+.*operator-1 running +ready`, "", "it is restarted; the others drain its share", short},
		{`operator-1 running +ready .* 1 +[1-9]\d* █`, "", "it owns its share again", long},
		{`3 of 3 shards ready · 60 websites, 60 ready\n(.*\n)+.*operator-1 .* 2\d █`, "+", "all shards are ready again", long},
		{`4 of 4 shards ready(.*\n)+.*operator-3 running +ready .* 0 +[1-9]\d* █`, "", "a fourth instance gets a share from all others", long},
		{`4 of 4 shards ready · 60 websites, 60 ready\n(.*\n)+.*operator-3 running +ready .* 1\d █`, "", "the other websites do not move", long},
	}
	var frames []frame
	for i, s := range steps {
		// On a busy machine a short state may be missed. Then its frame is omitted.
		next := steps[min(i+1, len(steps)-1)].pattern
		if err := r.waitFor(ctx, s.pattern+"|"+next); err != nil {
			return nil, err
		}
		if s.keys == "" && !r.matches(s.pattern) {
			continue
		}
		frames = append(frames, r.frame(s.caption, s.duration))
		if err := r.press(s.keys); err != nil {
			return nil, err
		}
	}
	return frames, nil
}
