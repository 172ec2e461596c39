package quota

import (
	"crypto/sha256"
	"fmt"
	"hash/maphash"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"weir"
	"weir/identify"
)

// validateKey looks at the parts by which limits are counted.
func (o *Options) validateKey(v *weir.Mistakes) {
	key, err := identify.ParseKey(o.Key)
	v.Under("key", err)
	if err == nil && len(o.Key) > 0 && !key.Has("account") && o.OnMissing == MissingRefuse {
		v.Add("on_missing", "the key has no account, so that none can be missing", "leave it out, or add account to the key")
	}
	if o.Key != nil && len(o.Key) == 0 {
		v.Add("key", "the key has no parts", "leave it out to count by account")
	}
}

// Parts returns the parts of the key that gates have to find in requests, such as header:X-Tenant.
func (o *Options) Parts() []string {
	key, _ := identify.ParseKey(o.Key) // Validate has reported mistakes
	return key.Said()
}

// KeyParts returns the parts of the key that gates have to find in requests: Event.Parts is to have them.
func (q *Quota) KeyParts() []string {
	rs := q.rules.Load()
	if rs.key == nil {
		return nil
	}
	return rs.key.Said()
}

// Shares reports whether others than a network may use up what an event from there without an account is charged to.
func (q *Quota) Shares(network netip.Prefix) bool {
	rs := q.rules.Load()
	return rs.key != nil && !rs.ofAccount ||
		identify.Network(network.Addr(), rs.SourceV4, rs.SourceV6).Bits() < network.Bits()
}

// Locate sets what knows the countries of addresses, for keys with a country, before the quota is used. It returns the
// country of an address, or "", and may be called from any goroutine.
func (q *Quota) Locate(country func(netip.Addr) string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	next := *q.rules.Load()
	if next.country = country; next.key != nil {
		key := *next.key
		key.Country = country
		next.key = &key
	}
	q.rules.Store(&next)
}

// compileKey makes the key ready for use.
func (rs *rules) compileKey() {
	key, _ := identify.ParseKey(rs.Key) // Validate has reported mistakes
	if key.IsZero() {
		return
	}
	key.V4, key.V6, key.Country = rs.SourceV4, rs.SourceV6, rs.country
	rs.key, rs.ofAccount = &key, key.Has("account")
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", key.String(), key.V4, key.V6))
	rs.by = fmt.Sprintf(" key %x", sum[:8])
}

// KeyOf returns the key by which an event is counted, or "" where that is its account or source, or it has none.
func (q *Quota) KeyOf(ev *weir.Event) string {
	rs := q.rules.Load()
	if rs.key == nil {
		return ""
	}
	key, _ := rs.appendKey(nil, ev)
	return string(key)
}

// appendKey appends the key of an event. On an error, or without an account where there must be one, it is empty.
func (rs *rules) appendKey(b []byte, ev *weir.Event) ([]byte, error) {
	account := ev.Account
	if rs.ofAccount {
		if rs.doubts(ev) {
			account = ""
		} else if account == "" && rs.OnMissing == MissingRefuse {
			return b, nil
		}
		if account == "" && !ev.Source.IsValid() {
			return b, nil
		}
	}
	return rs.key.Append(b, ev, account)
}

// findKey is find where what is counted apart has several parts.
func (t *table) findKey(rs *rules, ev *weir.Event, now int64, m manner) (*account, *stranger) {
	var room [2 * identify.MaxKey]byte
	key, err := rs.appendKey(room[:0], ev)
	if err != nil || len(key) == 0 {
		return nil, nil
	}
	hash := maphash.Bytes(t.seed, key)
	s := &t.shards[hash%shards]
	s.mu.Lock()
	if a := s.accounts.get(hash); a != nil && a.name == string(key) { // as most are
		if a.version != rs.version {
			a.update(rs)
		}
		return a, nil
	}
	s.mu.Unlock()
	return t.get(rs, string(key), netip.Addr{}, ev.Source, now, m)
}

// noAccount is why an event cannot be charged to any account.
func (rs *rules) noAccount(ev *weir.Event) weir.Reason {
	if rs.key != nil {
		if _, err := rs.appendKey(nil, ev); err != nil {
			return weir.BadKey
		}
	}
	return weir.NoAccount
}

// owner is the account that a name in the table belongs to, as it is written in keys.
func (rs *rules) owner(name string) string {
	if rs.key == nil {
		return name
	}
	return rs.key.Owner(name)
}

// names reports whether the options say something about the account, or about the one that its key belongs to.
func (rs *rules) names(name string) bool {
	if rs.known(name) {
		return true
	}
	owner := rs.owner(name)
	_, member := rs.Members[owner]
	return owner != "" && (member || rs.known(owner))
}

// figures are the figures of an account: those of its whole key go before those of its owner.
func (rs *rules) figures(name string) map[string]Override {
	own := rs.overrides(name)
	owner := rs.owner(name)
	if rs.key == nil || owner == "" || owner == name {
		return own
	}
	all := rs.overrides(owner)
	if len(own) == 0 || len(all) == 0 {
		if len(own) == 0 {
			return all
		}
		return own
	}
	both := maps.Clone(all)
	maps.Copy(both, own)
	return both
}

// Owner returns the account that a key belongs to, or "" where the key has none, or limits count by the account alone.
func (q *Quota) Owner(key string) string {
	rs := q.rules.Load()
	if rs.key == nil {
		return ""
	}
	owner := rs.key.Owner(key)
	if !strings.Contains(key, ",") || strings.HasPrefix(owner, identify.SourcePrefix) {
		return ""
	}
	return identify.PlainPart(owner)
}

// anonymous reports whether a key names nobody.
func (rs *rules) anonymous(name string) bool { return rs.key != nil && rs.key.Anonymous(name) }

// characterize notes what the key of a new account says about it.
func (rs *rules) characterize(a *account) {
	if a.name != "" && rs.anonymous(a.name) && !a.has(accepted) {
		a.set(anonymous)
	}
}

// Keys returns up to most keys of an account, in order, and whether there are more. It is nil where limits count by the
// account alone. It looks at the whole table: it is for operators.
func (q *Quota) Keys(account string, most int) (keys []string, more bool) {
	rs := q.rules.Load()
	if rs.key == nil || !rs.key.Has("account") {
		return nil, false
	}
	for i := range q.table.shards {
		s := &q.table.shards[i]
		s.mu.Lock()
		for _, a := range s.ring {
			if a.name != "" && rs.key.Owner(a.name) == account {
				if len(keys) < most {
					keys = append(keys, a.name)
				} else {
					more = true
				}
			}
		}
		s.mu.Unlock()
	}
	slices.Sort(keys)
	return keys, more
}
