package ban

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"weir/internal/parcel"
	"weir/store"
)

// wireVersion is the version of messages. Fields and kinds of words may be added under the same one: whoever does not
// know them leaves them out.
const wireVersion = 1

// Kinds of words.
const (
	offenceWord = "offence" // of a client, of an address, or of both
	banWord     = "ban"     // of an operator
	liftWord    = "lift"    // of an operator
	listedWord  = "listed"  // a mechanism's ban, in snapshots
	suspectWord = "suspect" // clients that count towards banning their address, in snapshots
)

// A word is one thing that nodes tell each other. Times are nanoseconds since the epoch.
type word struct {
	Kind   string       `json:"k"`
	Client string       `json:"c,omitempty"`
	Prefix netip.Prefix `json:"p,omitzero"`
	Source netip.Addr   `json:"s,omitzero"`
	Reason string       `json:"r,omitempty"`
	By     string       `json:"b,omitempty"`
	Since  int64        `json:"t,omitempty"` // when it happened
	Until  int64        `json:"u,omitempty"` // 0: permanently
	Last   int64        `json:"l,omitempty"` // listed: when the mechanism last had a reason
	Marks  []sharedMark `json:"m,omitempty"` // clients of an address, by a hash of their ids
}

type sharedMark struct {
	Client uint64 `json:"c"`
	At     int64  `json:"t"`
}

func wordOf(b store.Ban) word {
	w := word{Kind: listedWord, Client: b.Client, Prefix: b.Prefix, Reason: b.Reason, By: b.By}
	switch {
	case b.Lifted:
		w.Kind = liftWord
	case b.Operator:
		w.Kind = banWord
	}
	if w.Since = 1; !b.Since.IsZero() { // without a start it is older than everything
		w.Since = b.Since.UnixNano()
	}
	if !b.Until.IsZero() {
		w.Until = b.Until.UnixNano()
	}
	return w
}

// ban is what a word says about a ban.
func (w *word) ban() store.Ban {
	b := store.Ban{BanKey: store.BanKey{Client: w.Client, Prefix: w.Prefix, Lifted: w.Kind == liftWord},
		Reason: w.Reason, By: w.By, Operator: w.Kind != listedWord, Since: time.Unix(0, w.Since)}
	if w.Until != 0 {
		b.Until = time.Unix(0, w.Until)
	}
	return b
}

// check returns what is wrong with a word, apart from what a ban is checked for anyway.
func (w *word) check(now int64) error {
	limit := now + int64(maxAhead)
	if w.Since > limit || w.Last > limit {
		return errFarAhead
	}
	if len(w.Marks) > MaxAddressFrom {
		return fmt.Errorf("%d clients of one address, at most %d", len(w.Marks), MaxAddressFrom)
	}
	for _, m := range w.Marks {
		if m.At > limit {
			return errFarAhead
		}
	}
	if len(w.Reason) > store.MaxReason || len(w.By) > store.MaxBy {
		return fmt.Errorf("the reason, or who banned: %w", store.ErrTooLarge)
	}
	switch w.Kind {
	case suspectWord:
		return store.BanKey{Prefix: w.Prefix}.Validate()
	case offenceWord:
		if w.Client == "" && !w.Source.IsValid() {
			return errors.New("an offence of nobody")
		}
		return nil
	case listedWord:
		if w.Until == 0 {
			return errors.New("a mechanism's ban without an end")
		}
	}
	if w.Since <= 0 {
		return errors.New("it has no time")
	}
	if w.Client == "" && w.Prefix.Bits() == 0 {
		return errEverybody
	}
	return nil
}

// bad is what was wrong with a message's words.
type bad struct {
	unknown, malformed int
	first              error
}

// parse reads a message. Words of an unknown kind and words that cannot be read are left out.
func parse(msg []byte) (words []word, b bad, err error) {
	all, err := parcel.Open(msg, wireVersion, "bans")
	if err != nil {
		return nil, b, err
	}
	for _, raw := range all {
		var kind struct {
			Kind string `json:"k"`
		}
		var w word
		err := json.Unmarshal(raw, &kind)
		switch {
		case err == nil && !knownKind(kind.Kind):
			b.unknown++
			continue
		case err == nil:
			err = json.Unmarshal(raw, &w)
		}
		if err != nil {
			b.malformed++
			b.first = first(b.first, err)
			continue
		}
		words = append(words, w)
	}
	return words, b, nil
}

func knownKind(kind string) bool {
	switch kind {
	case offenceWord, banWord, liftWord, listedWord, suspectWord:
		return true
	}
	return false
}
