package ban

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weir/identify"
	"weir/store"
)

// Bounds of imported block lists.
const (
	MaxListName  = 32
	MaxListLine  = 512 // bytes, the comment included
	MaxListFile  = 16 << 20
	maxListFault = 20 // mistakes that are reported
	minListBits  = 4  // a wider network is a slip of the pen
)

// Errors of imported block lists.
var (
	ErrListName  = fmt.Errorf("the name of a block list is 1 to %d letters, digits, '-', '_' and '.'", MaxListName)
	ErrListEmpty = errors.New("the block list is empty: a download may have failed")
	ErrListLong  = errors.New("the block list has more entries than bans.max allows")
	// ErrListCrowded is returned where a network is on more lists than can be written down.
	ErrListCrowded = errors.New("a network is on too many block lists: give them shorter names, or make one of several")
)

// listMark begins who banned, where that is a block list: "list: drop, other".
const listMark = "list: "

// Lists returns the names of the block lists that a ban is from; none where an operator or a mechanism has banned.
func Lists(b *store.Ban) []string {
	names, found := strings.CutPrefix(b.By, listMark)
	if !found || !b.Operator {
		return nil
	}
	return strings.Split(names, ", ")
}

// Listed reports whether a ban is from a block list. It does not hold in exempt networks, as nobody has looked at it.
func Listed(b *store.Ban) bool { return b.Operator && strings.HasPrefix(b.By, listMark) }

// CheckListName returns ErrListName for what is not the name of a block list.
func CheckListName(name string) error {
	if name == "" || len(name) > MaxListName || strings.Trim(name,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
		return ErrListName
	}
	return nil
}

// ParseList reads a block list: an address or a network in each line, and behind # or ; a comment. It returns them
// sorted, each once. A mistake is an error with the number of its line; several are joined, and there are no entries.
func ParseList(r io.Reader, most int) (all []netip.Prefix, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, MaxListLine)
	var faults []error
	number := 0
	for lines.Scan() && len(faults) < maxListFault {
		number++
		line := lines.Bytes()
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")) // as some editors write it
		}
		if i := bytes.IndexAny(line, "#;"); i >= 0 {
			line = line[:i]
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		p, err := parseEntry(string(line))
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", number, err))
			continue
		}
		if all = append(all, p); len(all) > 2*most+1 { // it may have entries twice
			if all = distinct(all); len(all) > most {
				return nil, fmt.Errorf("%w (%d)", ErrListLong, most)
			}
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		faults = append(faults, fmt.Errorf("line %d: longer than %d bytes (is this a list of addresses?)", number+1,
			MaxListLine))
	case err != nil:
		return nil, err
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if all = distinct(all); len(all) > most {
		return nil, fmt.Errorf("%w (%d)", ErrListLong, most)
	}
	return all, nil
}

func distinct(all []netip.Prefix) []netip.Prefix {
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all)
}

func parseEntry(text string) (netip.Prefix, error) {
	const hint = "(write 192.0.2.1, 192.0.2.0/24 or 2001:db8::/32)"
	key, err := store.ParseBanKey(text)
	switch {
	case err != nil && strings.Contains(text, "-"):
		return netip.Prefix{}, fmt.Errorf("%.64q is not a network; a range has to be written as networks %s", text, hint)
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%.64q is neither an address nor a network %s", text, hint)
	case key.Client != "":
		return netip.Prefix{}, fmt.Errorf("a block list has no clients %s", hint)
	case key.Prefix.Bits() < minListBits:
		return netip.Prefix{}, fmt.Errorf("%s is wider than /%d, which is a large part of everybody", key.Prefix,
			minListBits)
	}
	return identify.PlainPrefix(key.Prefix), nil
}

// A BlockList is a list that replaces what was imported under its name before.
type BlockList struct {
	Name    string
	Entries []netip.Prefix // as ParseList returns them; none: everything of the list is lifted
	Reason  string
	Until   time.Time // zero: until the list is replaced
}

// Replaced says what became of the entries of a list.
type Replaced struct {
	Entries  int `json:"entries"`   // that the list has now
	Added    int `json:"added"`     // networks that were not banned before
	Removed  int `json:"removed"`   // networks that are no longer banned
	Same     int `json:"same"`      // networks that were on the list before
	ByOthers int `json:"by_others"` // networks that an operator or another list has banned
}

// Replace bans the networks of a block list, for the operator who imported it, and lifts those that were on the list
// before and are not any more. What operators have banned one by one stays as it is; so does what is on other lists.
// It is all or nothing, and networks that stay are banned all the while. With dry nothing is changed.
//
// It returns ErrFull when there is no room for all of them.
func (l *List) Replace(list BlockList, now time.Time, dry bool) (r Replaced, err error) {
	if err := CheckListName(list.Name); err != nil {
		return r, err
	}
	sample := store.Ban{BanKey: store.BanKey{Client: "x"}, Reason: list.Reason, Until: list.Until.Round(0)}
	if err := sample.Validate(); err != nil {
		return r, err
	}
	if !sample.Holds(now) {
		return r, fmt.Errorf("a block list that is over at %s already: %w", list.Until.Format(time.RFC3339),
			store.ErrInvalid)
	}
	l.mu.Lock()
	l.seen = now.UnixNano()
	s := l.shared
	put, gone, err := l.difference(&list, now, &r)
	if err == nil && !dry {
		for _, key := range gone { // first, to make room: none of them stays
			_ = l.remove(key) // it was there a moment ago
		}
		for _, b := range put {
			if err = l.add(b, 0); err != nil { // cannot be: there is room
				break
			}
			l.outdate(b)
			s.say(b)
		}
	}
	l.mu.Unlock()
	_ = s.Flush() // what cannot be sent waits
	return r, err
}

// difference is what is to be put on the list and what is to be removed, for the entries of a block list. l.mu is held.
func (l *List) difference(list *BlockList, now time.Time, r *Replaced) (put []store.Ban, gone []store.BanKey,
	err error,
) {
	wanted := make(map[netip.Prefix]bool, len(list.Entries))
	for _, p := range list.Entries {
		wanted[p] = true
	}
	var left []store.Ban // of the list, and not any more
	l.networks.each(func(i *item) {
		if i.holds(l.seen) && !wanted[i.ban.Prefix] && slices.Contains(Lists(&i.ban), list.Name) {
			left = append(left, i.ban)
		}
	})
	room := l.setup.Load().Max - int(l.counts.operators.Load())
	for _, p := range list.Entries {
		b := store.Ban{BanKey: store.BanKey{Prefix: p}, Reason: list.Reason, By: listMark + list.Name, Operator: true,
			Since: now.Round(0), Until: list.Until.Round(0)}
		if err := b.Validate(); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", p, err)
		}
		r.Entries++
		old := l.current(b.BanKey)
		switch {
		case old == nil || !old.ban.Operator:
			r.Added++
			room--
		default:
			names := Lists(&old.ban)
			if names == nil { // an operator has banned it
				r.ByOthers++
				continue
			}
			if slices.Contains(names, list.Name) {
				r.Same++
			} else {
				r.ByOthers++
				names = append(names, list.Name)
			}
			if b.By = listMark + strings.Join(names, ", "); len(b.By) > store.MaxBy {
				return nil, nil, ErrListCrowded
			}
			if len(names) > 1 { // it ends when the last list lets go of it
				b.Reason, b.Until = old.ban.Reason, longer(b.Until, old.ban.Until)
			}
			if b.By == old.ban.By && b.Reason == old.ban.Reason && b.Until.Equal(old.ban.Until) {
				continue
			}
		}
		put = append(put, l.afterWords(b))
	}
	for _, b := range left {
		names := slices.DeleteFunc(Lists(&b), func(name string) bool { return name == list.Name })
		if len(names) > 0 {
			b.By, b.Since = listMark+strings.Join(names, ", "), now.Round(0)
			put = append(put, l.afterWords(b))
			continue
		}
		r.Removed++
		room++
		gone = append(gone, b.BanKey)
	}
	if room < 0 {
		l.counts.refused.Add(uint64(-room))
		return nil, nil, ErrFull
	}
	return put, gone, nil
}

// afterWords makes an operator's ban the last word about its network, though another node's clock is ahead. l.mu is
// held.
func (l *List) afterWords(b store.Ban) store.Ban {
	if w := l.word(b.BanKey); l.shared != nil && w != nil && !b.Since.After(w.Since) {
		b.Since = w.Since.Add(1)
	}
	return b
}

// longer is the later of two ends, of which none (zero) is the latest.
func longer(a, b time.Time) time.Time {
	if a.IsZero() || b.IsZero() {
		return time.Time{}
	}
	return later(a, b)
}

// ListSizes returns how many networks are banned by each block list.
func (l *List) ListSizes(now time.Time) map[string]int {
	sizes := map[string]int{}
	l.Each(now, func(b store.Ban) {
		for _, name := range Lists(&b) {
			sizes[name]++
		}
	})
	return sizes
}
