package console

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
	"weir/throttle/ban"

	"weir"
)

func (b *backend) BlockLists() []BlockList { return b.lists.all }

func (b *backend) ImportList(_ context.Context, o ListOrder, by string) (ListResult, error) {
	b.lists.order, b.lists.by = o, by
	return ListResult{Name: o.Name, Replaced: ban.Replaced{Entries: 1}, Kept: true}, b.lists.err
}

// listState is what the test's weir is asked about block lists, and what it answers.
type listState struct {
	all   []BlockList
	order ListOrder
	by    string
	err   error
}

func TestBlockListsOverTheSocket(t *testing.T) {
	b := newBackend()
	path := socketPath(t)
	control(t, path, b)
	client := NewClient(path)
	b.lists.all = []BlockList{{Name: "drop", Entries: 3, Banned: 2, At: time.Unix(1e9, 0).UTC()}}
	if page, err := BlockListsCall.Ask(t.Context(), client, None{}); err != nil || !reflect.DeepEqual(page.Lists,
		b.lists.all) {
		t.Errorf("%+v, %v", page, err)
	}
	order := ListOrder{Name: "drop", Text: strings.Repeat("192.0.2.1 # a comment\n", 10*maxBody/20), Reason: "feed",
		For: weir.Duration(time.Hour), Dry: true}
	if r, err := client.ImportList(t.Context(), order); err != nil || b.lists.order != order || b.lists.by == "" ||
		r.Entries != 1 {
		t.Errorf("%+v by %q, %v", r, b.lists.by, err)
	}
	b.lists.err = Invalid("line 2")
	if _, err := client.ImportList(t.Context(), order); code(err) != http.StatusBadRequest {
		t.Error(err)
	}
	order.Text = strings.Repeat("x", maxListBody)
	if _, err := client.ImportList(t.Context(), order); code(err) != http.StatusRequestEntityTooLarge {
		t.Errorf("one that is too large: %v", err)
	}
}
