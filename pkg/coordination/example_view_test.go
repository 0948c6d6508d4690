package coordination_test

import (
	"context"
	"fmt"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// A program that looks at a system without taking part in it uses ReadView.
func ExampleReadView() {
	ctx, store := context.Background(), open()
	one := operatorOf(store, "dc1", "dc1-1")
	one.settings.Expected = []string{"dc1", "dc2"}
	reconcile(2, one)

	systems, err := coordination.Systems(ctx, store, "")
	if err != nil {
		fmt.Println(err)
	}
	for _, system := range systems {
		view, err := coordination.ReadView(ctx, store, "", system)
		if err != nil {
			fmt.Println(err)
			continue
		}
		for _, action := range view.Actions() {
			fmt.Println(system, action, "waits for", view.WaitReasons(action))
		}
	}
	// Output: orders-db RollingRestart waits for [dc2: it is expected, but not alive]
}

// The leading part in the system goes to none that is about to be restarted, and to none that leaves.
func ExampleView_Candidates() {
	store := open()
	one, two := operatorOf(store, "dc1", "dc1-1"), operatorOf(store, "dc2")
	one.settings.Expected = []string{"dc3"}
	view := reconcile(2, one, two).View
	fmt.Println(view.Candidates([]coordination.MemberID{"dc1-1", "dc1-2", "dc2-1"}, replacement))
	// Output: [dc1-2 dc2-1]
}

// An order that was accepted and will never be answered is ended by a person. What asked for it stays pending.
func ExampleAbandon() {
	ctx, store := context.Background(), open()
	one := operatorOf(store, "dc1", "dc1-1")
	one.system = &hangingDatabase{one.system.(*database)}
	reconcile(3, one)

	done, err := coordination.Abandon(ctx, store, "", "orders-db", "the machine of dc1-1 is gone")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(done.Action, done.Failure)
	_, err = coordination.Abandon(ctx, store, "", "orders-db", "again")
	fmt.Println(err)
	// Output:
	// RollingRestart abandoned by a person: the machine of dc1-1 is gone
	// abandoning the intent of orders-db: no action is in progress
}

// A holder that is alive and hangs is fenced. The next participant goes on with the intent under a higher token.
func ExampleBreakLock() {
	ctx, store := context.Background(), open()
	one := operatorOf(store, "dc1", "dc1-1")
	one.system = &hangingDatabase{one.system.(*database)}
	reconcile(3, one)

	lock, err := coordination.BreakLock(ctx, store, "", "orders-db")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lock.Holder, "had the token", lock.Token)
	two := operatorOf(store, "dc2")
	fmt.Println(reconcile(1, two).Intent.Holder, "goes on under the token", reconcile(1, two).View.Token)
	// Output:
	// dc1-operator had the token 1
	// dc2-operator goes on under the token 2
}

// What a participant has written that will never return is removed by a person. It is refused while it is alive.
func ExampleForget() {
	ctx, store := context.Background(), open()
	one := operatorOf(store, "dc1", "dc1-1")
	one.settings.Expected = []string{"dc2"} // so that nothing begins
	reconcile(2, one)
	fmt.Println(coordination.Forget(ctx, store, "", "orders-db", "dc1"))
	if err := one.Close(ctx); err != nil { // it has died
		fmt.Println(err)
	}
	fmt.Println(coordination.Forget(ctx, store, "", "orders-db", "dc1"))
	// Output:
	// a participant with this prefix is alive: stop it, or switch it to local mode, which removes its entries: dc1
	// <nil>
}
