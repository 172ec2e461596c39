package rlsgate

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"weir"
	"weir/identify"
)

// What descriptors may say about the request, besides the keys that the options name.
const (
	keyMethod  = "method"
	keyHost    = "host"
	keyPath    = "path"
	keyAddress = "remote_address" // as Envoy's own action calls it
)

// event fills in an event from a descriptor, and reports whether it names an account to charge.
func (d *Domain) event(ev *weir.Event, entries []*common.RateLimitDescriptor_Entry) bool {
	for _, e := range entries {
		if d.Plan != "" && e.Key == d.Plan {
			ev.Plan = e.Value
		}
		switch e.Key {
		case keyMethod:
			ev.Route.Method = e.Value
		case keyHost:
			ev.Route.Host = identify.Host(e.Value)
		case keyPath:
			path, _, _ := strings.Cut(e.Value, "?")
			r := identify.Route("", "", path, nil)
			ev.Route.Path, ev.Route.Odd, ev.Route.Also = r.Path, r.Odd, r.Also
		case keyAddress:
			if addr, err := netip.ParseAddr(e.Value); err == nil {
				ev.Source = identify.Plain(addr)
			}
		}
	}
	if len(d.Account) == 0 {
		return ev.Source.IsValid()
	}
	name, ok := d.name(entries)
	ev.Account = account(name)
	return ok
}

// doubtful reports whether the service behind Envoy may read another account than the one that would be charged.
// Envoy joins the values of a header that comes twice with a comma.
func (d *Domain) doubtful(entries []*common.RateLimitDescriptor_Entry) bool {
	for _, key := range d.Account {
		first, found := "", false
		for _, e := range entries {
			if e.Key != key {
				continue
			}
			if found && e.Value != first || key != keyPath && strings.IndexByte(e.Value, ',') >= 0 {
				return true
			}
			first, found = e.Value, true
		}
	}
	return false
}

// name joins the values of the keys that name the account.
func (d *Domain) name(entries []*common.RateLimitDescriptor_Entry) (string, bool) {
	if len(d.Account) == 1 {
		v := valueOf(d.Account[0], entries)
		return v, v != ""
	}
	var b strings.Builder
	for i, key := range d.Account {
		v := valueOf(key, entries)
		if v == "" {
			return "", false
		}
		if i > 0 {
			b.WriteByte('/')
		}
		// A slash in a value must not lead to another account.
		if strings.ContainsAny(v, `/\`) {
			v = escape.Replace(v)
		}
		b.WriteString(v)
	}
	return b.String(), true
}

var escape = strings.NewReplacer(`\`, `\\`, `/`, `\/`)

func valueOf(key string, entries []*common.RateLimitDescriptor_Entry) string {
	for _, e := range entries {
		if e.Key == key {
			return e.Value
		}
	}
	return ""
}

// account makes an account id of a name that a caller sends. A long name is cut and ends in a hash. A name that looks
// like an address is escaped, so that it is not charged to that address.
func account(name string) string {
	if strings.HasPrefix(name, identify.SourcePrefix) {
		name = `\` + name
	}
	if len(name) <= identify.MaxAccount {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.ToValidUTF8(name[:identify.MaxAccount-2*len(sum)-1], "") + "#" + hex.EncodeToString(sum[:])
}
