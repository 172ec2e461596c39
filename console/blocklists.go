package console

import (
	"context"
	"net/http"
	"time"

	"weir"
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

func (c *Control) listHandlers(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/bans/lists", answer(func(*http.Request, *none) (any, error) {
		return BlockListPage{c.backend.BlockLists()}, nil
	}))
	mux.HandleFunc("POST /v1/bans/lists", answerUpTo(maxListBody, func(r *http.Request, o *ListOrder) (any, error) {
		return c.backend.ImportList(r.Context(), *o, operator(r))
	}))
}

// BlockLists returns the block lists that were imported.
func (c *Client) BlockLists(ctx context.Context) (BlockListPage, error) {
	return fetch[BlockListPage](ctx, c, http.MethodGet, "/v1/bans/lists", nil)
}

// ImportList replaces the networks of a block list as a whole.
func (c *Client) ImportList(ctx context.Context, o ListOrder) (ListResult, error) {
	return fetch[ListResult](ctx, c, http.MethodPost, "/v1/bans/lists", o)
}
