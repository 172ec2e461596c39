package sqlite

import (
	"testing"

	"weir/store"
	"weir/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, folder string) (store.Store, error) {
		return Open(t.Context(), Options{Folder: folder})
	})
}
