package store

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Bans is the block list as it is kept over restarts, and the lifts that the nodes of a farm must remember.
type Bans interface {
	// List returns every ban and every lift that holds at now, in the order of BanKey.Compare.
	List(ctx context.Context, now time.Time) ([]Ban, error)
	// Put adds bans; a ban of the same client or network is replaced. Of two with one key in a call the last counts.
	Put(ctx context.Context, bans ...Ban) error
	// Remove removes bans. One that is not there is no error.
	Remove(ctx context.Context, keys ...BanKey) error
	// Prune forgets the bans that are over at now, and returns how many.
	Prune(ctx context.Context, now time.Time) (int, error)
}

// A BanKey says who is banned: a client by its id, or a network. One of the two is set. It can be compared with ==.
type BanKey struct {
	Client string       `json:"client,omitempty"`
	Prefix netip.Prefix `json:"prefix,omitzero"` // without host bits; an IPv4 network is never written as one of IPv6
	// Lifted marks a lift, which says that an operator's ban is no more. It is kept beside a ban of the same client or
	// network, since a mechanism may have banned again.
	Lifted bool `json:"lifted,omitempty"`
}

// clientMark comes before the id of a client in texts that may have an address instead.
const clientMark = "client:"

// ParseBanKey reads what String writes, and what people write: 192.0.2.1, 192.0.2.0/24, 2001:db8::/32, client:ID.
func ParseBanKey(text string) (BanKey, error) {
	if id, found := strings.CutPrefix(text, clientMark); found {
		k := BanKey{Client: id}
		return k, k.Validate()
	}
	p, err := netip.ParsePrefix(text)
	if addr, bare := netip.ParseAddr(text); bare == nil {
		addr = addr.WithZone("") // it has a meaning on this machine only
		p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	if err != nil {
		return BanKey{}, fmt.Errorf("%.64q is neither an address nor a network (write 192.0.2.1, 192.0.2.0/24, "+
			"2001:db8::/32, or client:ID): %w", text, ErrInvalid)
	}
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	k := BanKey{Prefix: p.Masked()}
	return k, k.Validate()
}

// String writes the key as people do: an address, a network, or client: and the id.
func (k BanKey) String() string {
	switch {
	case k.Client != "":
		return clientMark + k.Client
	case k.Prefix.IsValid() && k.Prefix.IsSingleIP():
		return k.Prefix.Addr().String()
	}
	return k.Prefix.String()
}

// Compare orders networks before clients, networks by address and clients by id, and a ban before a lift.
func (k BanKey) Compare(other BanKey) int {
	if c := strings.Compare(k.Client, other.Client); c != 0 {
		return c // no client comes first
	}
	if c := k.Prefix.Compare(other.Prefix); c != 0 || k.Lifted == other.Lifted {
		return c
	}
	if k.Lifted {
		return 1
	}
	return -1
}

// Validate returns what is wrong with the key: ErrInvalid or ErrTooLarge.
func (k BanKey) Validate() error {
	switch p := k.Prefix; {
	case k.Client == "" && p == netip.Prefix{}:
		return fmt.Errorf("a ban of nobody: %w", ErrInvalid)
	case k.Client != "" && p != netip.Prefix{}:
		return fmt.Errorf("a ban of a client and of a network: %w", ErrInvalid)
	case k.Client != "":
		return checkText("the id of a client", k.Client, MaxClient)
	case !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() && p.Bits() >= 96:
		return fmt.Errorf("%s is not a network as it should be written: %w", p, ErrInvalid)
	}
	return nil
}

// A Ban says that a client, or everybody in a network, is not served. Where Lifted is set it bans nobody: it says that
// an operator's ban ended at Since, and is remembered until Until, so that no other node brings the ban back.
type Ban struct {
	BanKey
	Reason   string    `json:"reason,omitempty"`
	By       string    `json:"by,omitempty"`       // the operator, or the mechanism
	Operator bool      `json:"operator,omitempty"` // an operator did it; only an operator undoes it
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"` // zero: permanently
}

// Holds reports whether the ban is not over at now.
func (b *Ban) Holds(now time.Time) bool { return b.Until.IsZero() || now.Before(b.Until) }

// Equal reports whether two bans say the same.
func (b *Ban) Equal(other *Ban) bool {
	return b.BanKey == other.BanKey && b.Reason == other.Reason && b.By == other.By && b.Operator == other.Operator &&
		b.Since.Equal(other.Since) && b.Until.Equal(other.Until)
}

// Validate returns what is wrong with the ban: ErrInvalid or ErrTooLarge.
func (b Ban) Validate() error {
	if b.Lifted && (b.Since.IsZero() || b.Until.IsZero()) {
		return fmt.Errorf("a lift without a time, or without an end: %w", ErrInvalid)
	}
	return cmp.Or(b.BanKey.Validate(), checkText("the reason of a ban", b.Reason, MaxReason),
		checkText("who banned", b.By, MaxBy), checkMaybe("since", b.Since), checkMaybe("until", b.Until))
}
