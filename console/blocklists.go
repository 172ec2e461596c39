package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"weir"
	"weir/console/access"
)

// maxListBody is how large a block list may be, in bytes of JSON.
const maxListBody = 32 << 20

// A ListOrder asks to replace the networks of a block list as a whole.
type ListOrder struct {
	Name   string        `json:"name"`
	Text   string        `json:"text,omitempty"` // an address or a network in each line; behind # or ; a comment
	Reason string        `json:"reason,omitempty"`
	For    weir.Duration `json:"for,omitzero"`     // 0: until it is replaced
	Remove bool          `json:"remove,omitempty"` // lift everything of the list; without text
	Dry    bool          `json:"dry,omitempty"`    // say what would happen, and change nothing
}

// A ListChange says what became of the entries of a block list.
type ListChange struct {
	Entries  int `json:"entries"`   // that the list has now
	Added    int `json:"added"`     // networks that were not banned before
	Removed  int `json:"removed"`   // networks that are no longer banned
	Same     int `json:"same"`      // networks that were on the list before
	ByOthers int `json:"by_others"` // networks that an operator or another list has banned
}

// A ListResult is what became of a block list.
type ListResult struct {
	Name string `json:"name"`
	ListChange
	LeftOut  []string `json:"left_out,omitempty"` // networks that this machine is in
	Kept     bool     `json:"kept"`               // a restart does not lose it
	Warnings []string `json:"warnings,omitempty"`
}

// A BlockList is one that was imported.
type BlockList struct {
	Name    string    `json:"name"`
	Entries int       `json:"entries"` // that were imported
	Banned  int       `json:"banned"`  // that the list bans now; others may be banned by an operator
	Reason  string    `json:"reason,omitempty"`
	By      string    `json:"by,omitempty"`
	At      time.Time `json:"at,omitzero"`
	Until   time.Time `json:"until,omitzero"` // left out: until it is replaced
}

// BlockListPage has all block lists.
type BlockListPage struct {
	Lists []BlockList `json:"lists"`
}

var (
	BlockListsCall = define(Call{Method: http.MethodGet, Path: "/bans/lists", Role: access.View,
		Commands: []string{"ban lists"}, Summary: "Shows the block lists that were imported."},
		func(q *Request, _ *None) (BlockListPage, error) { return BlockListPage{q.backend.BlockLists()}, nil })

	listImport = define(Call{Method: http.MethodPost, Path: "/bans/lists", Role: access.Act,
		Commands: []string{"ban import"}, most: maxListBody,
		Summary: "Replaces the networks of a block list as a whole, or changes nothing."},
		func(q *Request, in *ListOrder) (ListResult, error) {
			for _, l := range q.backend.BlockLists() {
				if l.Name == in.Name {
					q.before = l
				}
			}
			return q.backend.ImportList(q, *in, q.by())
		}).saying(func(in *ListOrder, out ListResult) string {
		return fmt.Sprintf("%s: %s, %d added, %d removed.", in.Name, several(out.Entries, "network"), out.Added,
			out.Removed)
	})
)

// ImportList replaces the networks of a block list as a whole.
func (c *Client) ImportList(ctx context.Context, o ListOrder) (ListResult, error) {
	// One that is too large is not sent: weir would hang up in the middle of it, and nobody could read why.
	if text, err := json.Marshal(o); err != nil || len(text) > maxListBody {
		return ListResult{}, &Error{http.StatusRequestEntityTooLarge,
			fmt.Sprintf("the list is too large: %d bytes as JSON, at most %d", len(text), maxListBody)}
	}
	return listImport.Ask(ctx, c, o)
}
