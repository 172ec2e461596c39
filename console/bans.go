package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"weir"
	"weir/console/access"
	"weir/throttle/ban"
)

// MaxBanPage is how many bans one answer holds, so that an answer is never larger than a client reads.
const MaxBanPage = 10_000

// Bans is the block list, for commands. It is safe for concurrent use.
type Bans interface {
	// Bans returns a part of the list.
	Bans(BanQuery) (BanPage, error)
	// Ban adds a ban for an operator. It returns when a restart would keep the ban, or with a warning that it would
	// not.
	Ban(ctx context.Context, o BanOrder, by string) (BanResult, error)
	// Unban removes a ban and returns it.
	Unban(ctx context.Context, who, by string) (BanResult, error)
	// BlockLists returns the block lists that were imported, by name.
	BlockLists() []BlockList
	// ImportList replaces the networks of a block list as a whole. It returns when a restart would keep them, or with a
	// warning that it would not.
	ImportList(ctx context.Context, o ListOrder, by string) (ListResult, error)
}

// A Ban is an entry of the block list, in the form that operators write.
type Ban struct {
	Who      string    `json:"who"`              // an address, a network, or client:ID
	Reason   string    `json:"reason,omitempty"` // why
	By       string    `json:"by,omitempty"`     // the operator, or the throttle
	Operator bool      `json:"operator"`         // an operator did it
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"` // left out: permanent
}

// BanStatus sums up the block list.
type BanStatus struct {
	ban.Stats
	Auto string `json:"auto"` // off, shadow or enforce
}

// Summary says in a sentence who is banned.
func (b BanStatus) Summary() string {
	if b.Clients+b.Networks == 0 {
		return "Nobody is banned."
	}
	text := several(b.Clients, "client") + " and " + several(b.Networks, "network") + " are banned"
	if b.Operators > 0 {
		text += fmt.Sprintf(", %d of them by operators", b.Operators)
	}
	return text + "."
}

// StoreStatus says whether the data folder can be written.
type StoreStatus struct {
	Path     string      `json:"path,omitempty"`
	Writes   uint64      `json:"writes" metric:"weir_store_writes_total" help:"Writes to the data folder that are on the disk."`
	Failures uint64      `json:"failures"`
	Parts    []StorePart `json:"parts"`
}

// A StorePart is one kind of data in the folder.
type StorePart struct {
	Part     string `json:"part" label:"part"` // bans, counters, settings; mail, where there is a gate for it
	Unsaved  int    `json:"unsaved" metric:"weir_store_unsaved" help:"Changes that are only in memory so far."`
	Failures uint64 `json:"failures" metric:"weir_store_failures_total" help:"Writes to the data folder that failed."`
	// Why it cannot be written; empty when it can.
	Error string `json:"error,omitempty" metric:"weir_store_failing" help:"1 while writes to the data folder fail; a restart would lose the latest changes."`
}

// Means is what follows while the part cannot be written.
func (p StorePart) Means() string {
	if p.Part == "mail" {
		return "no mail is taken, and senders are told to try again later"
	}
	return "a restart would forget the latest " + p.Part
}

// A BanQuery asks for a part of the block list.
type BanQuery struct {
	// a text in who, reason or by; an address or a network also finds the networks around and within it
	Filter string `json:"filter,omitempty"`
	After  string `json:"after,omitempty"` // the Next of the page before
	Limit  int    `json:"limit,omitempty"` // at most MaxBanPage, which is the default
}

// A BanPage is a part of the block list, in order: networks by address, then clients by id.
type BanPage struct {
	Bans  []Ban  `json:"bans"`
	Total int    `json:"total"`          // how many the filter finds, over all pages
	Next  string `json:"next,omitempty"` // where the next page begins; empty on the last one
}

// A BanWho names a ban.
type BanWho struct {
	Who string `json:"who"`
}

// A BanOrder asks for a ban.
type BanOrder struct {
	Who    string        `json:"who"`
	For    weir.Duration `json:"for,omitzero"` // 0: permanent
	Reason string        `json:"reason,omitempty"`
}

// A BanResult is the result of a BanOrder.
type BanResult struct {
	Ban      Ban      `json:"ban"`
	Kept     bool     `json:"kept"`               // a restart does not lose it
	Warnings []string `json:"warnings,omitempty"` // what the operator should know
}

var (
	BansCall = define(http.MethodGet, "/bans", access.View, "ban list", "Shows a part of the block list.",
		func(q *Request, in *BanQuery) (BanPage, error) {
			var err error
			if in.Limit, err = limitOf(in.Limit, MaxBanPage); err != nil {
				return BanPage{}, err
			}
			return q.backend.Bans(*in)
		})

	BanAddCall = define(http.MethodPost, "/bans", access.Act, "ban add", "Bans an address, a network or a client.",
		func(q *Request, in *BanOrder) (BanResult, error) {
			q.before = q.banOf(in.Who)
			return q.backend.Ban(q, *in, q.by())
		}).saying(func(_ *BanOrder, out BanResult) string { return "Banned: " + out.Ban.Who + "." })

	BanRemoveCall = define(http.MethodDelete, "/bans", access.Act, "ban remove", "Removes a ban from the block list.",
		func(q *Request, in *BanWho) (BanResult, error) {
			q.before = q.banOf(in.Who)
			return q.backend.Unban(q, in.Who, q.by())
		}).saying(func(_ *BanWho, out BanResult) string { return "No longer banned: " + out.Ban.Who + "." })
)

// banOf is the ban of somebody, for the audit log; nil where there is none.
func (q *Request) banOf(who string) any {
	page, err := q.backend.Bans(BanQuery{Filter: who, Limit: MaxBanPage})
	if err != nil {
		return nil
	}
	for _, b := range page.Bans {
		if b.Who == who {
			return b
		}
	}
	return nil
}

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

// A ListResult is what became of a block list.
type ListResult struct {
	Name string `json:"name"`
	ban.Replaced
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
	BlockListsCall = define(http.MethodGet, "/bans/lists", access.View, "ban lists",
		"Shows the block lists that were imported.",
		func(q *Request, _ *None) (BlockListPage, error) { return BlockListPage{q.backend.BlockLists()}, nil })

	listImport = define(http.MethodPost, "/bans/lists", access.Act, "ban import",
		"Replaces the networks of a block list as a whole, or changes nothing.",
		func(q *Request, in *ListOrder) (ListResult, error) {
			for _, l := range q.backend.BlockLists() {
				if l.Name == in.Name {
					q.before = l
				}
			}
			return q.backend.ImportList(q, *in, q.by())
		}).upTo(maxListBody).saying(func(in *ListOrder, out ListResult) string {
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
