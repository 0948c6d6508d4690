package app

import (
	"context"
	"time"

	show "github.com/ringmaster-project/ringmaster/cmd/ringmaster/app/coordination"
	"github.com/ringmaster-project/ringmaster/internal/demo/view"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
)

// followAgreement tells what the operators of a system tell each other in the etcd at an endpoint, until ctx ends. While
// that etcd is being changed, it does not answer for a moment: what was known last is shown until it is too old.
func followAgreement(ctx context.Context, endpoint, system string, tell func(view.Agreement)) {
	const timeout, interval, tooOld = 2 * time.Second, time.Second, 5 * time.Second
	client, err := dialEtcd([]string{endpoint}, nil)
	if err != nil {
		tell(view.Agreement{Problem: err.Error()})
		return
	}
	defer client.Close()
	store := etcdstore.New(client, etcdstore.Options{Timeout: timeout})
	changed := store.Watch(ctx, coordination.DefaultRoot+"/"+system)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	known := time.Now()
	for ctx.Err() == nil {
		found, err := coordination.Look(ctx, store, "", system)
		switch now := time.Now(); {
		case err == nil:
			known = now
			agreement := show.Of(now, endpoint, found).Systems[0].Agreement()
			tell(agreement)
		case now.Sub(known) > tooOld && ctx.Err() == nil:
			tell(view.Agreement{Problem: err.Error()})
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-ticker.C:
		}
	}
}
