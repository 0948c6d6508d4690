// Package storetest is a conformance suite for implementations of kv.Store. Run it on your own store:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Process {
//			client := connect(t)
//			return storetest.Process{Store: mystore.New(client), Kill: client.Close}
//		})
//	}
//
// It guarantees that package coordination works with a store that passes. It takes about a minute, because sessions have
// to expire.
//
// Linearizable checks a store under concurrency and faults, with the recorder and the checker of package history.
package storetest
