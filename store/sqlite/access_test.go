package sqlite

import (
	"fmt"
	"testing"

	"weir/store"
)

// TestSalvageOperators: operators, sessions and tokens come back from a damaged store, but not from pages of no table:
// those may have been removed or revoked long ago, and must not let anybody in again.
func TestSalvageOperators(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := mustOpen(t, Options{Folder: folder})
	must(t, s.Access().Update(t.Context(), func(tx store.AccessTx) error {
		for i := range keptEach {
			sum, name := store.Sum{byte(i), byte(i >> 8), 31: 1}, fmt.Sprint("name-", i)
			must(t, tx.PutOperator(store.Operator{Name: name, Role: "admin", Password: "hash", Made: epoch, Changed: epoch}))
			must(t, tx.PutSession(store.Session{Sum: sum, Operator: name, Made: epoch, Seen: epoch, Until: epoch}))
			must(t, tx.PutToken(store.Token{Sum: sum, Name: name, Role: "admin", Made: epoch}))
			must(t, tx.Log(store.Entry{At: epoch, By: name, What: "login", From: "192.0.2.1", After: `{"n":1}`}))
		}
		return nil
	}))
	var roots []int
	for _, table := range []string{"operators", "sessions", "tokens"} {
		root, err := s.writer.first(`SELECT rootpage FROM sqlite_schema WHERE name = ?`, table)
		must(t, err)
		roots = append(roots, int(root.(int64)))
	}
	must(t, s.Close())
	for name, c := range map[string]struct {
		damage func([]byte) []byte
		want   int
	}{
		"no header": {func(b []byte) []byte { clear(b[:headerSize]); return b }, keptEach},
		"pages of no table": {func(b []byte) []byte {
			for _, root := range roots {
				clear(b[(root-1)*pageSize : root*pageSize])
			}
			return b
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			damaged := t.TempDir()
			copyFolder(t, folder, damaged, c.damage)
			_, err := Salvage(t.Context(), damaged, epoch, nil)
			must(t, err)
			s := mustOpen(t, Options{Folder: damaged})
			must(t, s.Access().View(t.Context(), func(tx store.AccessTx) error {
				operators, err := tx.Operators("", store.MaxBatch)
				must(t, err)
				tokens, err := tx.Tokens("", store.MaxBatch)
				must(t, err)
				_, session := tx.Session(store.Sum{1, 31: 1})
				if len(operators) != c.want || len(tokens) != c.want || (session == nil) != (c.want > 0) {
					t.Errorf("%d operators, %d tokens, a session: %v", len(operators), len(tokens), session)
				}
				return nil
			}))
			must(t, s.Mail().View(t.Context(), func(tx store.MailTx) error {
				entries, err := tx.Entries(store.EntryQuery{Text: "192.0.2.1"}, store.MaxBatch)
				if len(entries) != keptEach || entries[0].After != `{"n":1}` {
					t.Errorf("%d entries", len(entries))
				}
				return err
			}))
		})
	}
}
