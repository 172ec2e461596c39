// Package storetest is the suite that every store.Store passes: what the contract promises, tried out.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, folder string) (store.Store, error) {
//			return sqlite.Open(t.Context(), sqlite.Options{Folder: folder})
//		})
//	}
package storetest
