// Package storetest tells whether a coordination.Store keeps its promises. Run it on a store of your own:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Process {
//			client := connect(t)
//			return storetest.Process{Store: mystore.New(client), Kill: client.Close}
//		})
//	}
//
// It promises that a store which passes can be used by package coordination. It takes about a minute, because
// sessions have to be outlived.
//
// Linearizable looks at a store under concurrency and faults, with the recorder and the checker of package history.
package storetest
