// Package storetest is the test suite that every store.Store passes. It checks what the contract promises.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, folder string) (store.Store, error) {
//			return sqlite.Open(t.Context(), sqlite.Options{Folder: folder})
//		})
//	}
package storetest
