package app

import (
	"net/netip"
	"strings"

	"weir"
	"weir/identify"
	"weir/store"
	"weir/throttle/ban"
	"weir/throttle/bloom"
	"weir/throttle/quota"
)

// exceeded returns what a throttle tells of events: a network that stays over a limit may be banned. It is nil for
// throttles whose refusals cannot be held against a network.
func (a *App) exceeded(throttle string, by weir.Throttle) func(*weir.Event, *weir.Answer) {
	q, isQuota := by.(*quota.Quota)
	if _, isBloom := by.(*bloom.Limiter); !isBloom && !isQuota {
		return nil
	}
	return func(ev *weir.Event, answer *weir.Answer) {
		list := a.bans.list
		granted := answer.Verdict < weir.Challenge
		if granted && !list.Sharing(ev.Time) {
			return
		}
		// A quota charges the account where the event names one. A stranger may have used that up, and its owner is
		// refused.
		if isQuota && ev.Account != "" && !strings.HasPrefix(ev.Account, identify.SourcePrefix) {
			return
		}
		if granted {
			list.Granted(ev.Source, throttle, ev.Time)
			return
		}
		if !overLimit(answer) || !ownFault(ev) || a.current.Load().isProxy(ev.Source) {
			return
		}
		who, what := list.Exceed(ban.Excess{Source: ev.Source, Throttle: throttle, Limit: answer.Limit,
			Per: answer.Window.Length(), Shared: !isQuota || q.Shares(list.Network(ev.Source))}, ev.Time)
		switch what {
		case ban.WouldBan:
			a.opts.Log.Warn("a network stays over a limit, and would be banned (bans.auto.enforce bans it)",
				"who", who.String(), "throttle", throttle, "rule", answer.Rule)
		case ban.BannedByNow:
			a.opts.Log.Warn("a network stays over a limit, and is banned", "who", who.String(), "throttle", throttle,
				"rule", answer.Rule)
			a.changes.noteBan(ev.Time, store.BanKey{Prefix: who}.String(), "stayed over a limit of throttle "+throttle)
		}
	}
}

// overLimit reports whether an event was refused because too much came. A limit that unknown accounts share is not
// meant: others may have used it up. Nor is a level: there, requests under way count, and those may be slow.
func overLimit(a *weir.Answer) bool {
	if a.Verdict != weir.Refuse {
		return false
	}
	switch a.Reason {
	case weir.OverLimit, weir.LineFull, weir.WaitTooLong:
		return a.Window > 0 && a.Unit != "bytes"
	}
	return false
}

// ownFault reports whether an event can be held against its source. A source that somebody may have invented cannot:
// that of a packet, or the proxy's where a forwarding header breaks off. Nor can one that has no meaning beyond this
// machine or this network: everybody who comes through a proxy that nobody has named comes from there.
func ownFault(ev *weir.Event) bool {
	switch ev.Kind {
	case "http", "tcp", "connection":
	default:
		return false
	}
	if ev.SourceUnknown || !ev.Source.IsValid() {
		return false
	}
	source := ev.Source.Unmap()
	return source.IsGlobalUnicast() && !source.IsPrivate() && !carrier.Contains(source)
}

// carrier are the addresses that carriers use between themselves and their customers (RFC 6598).
var carrier = netip.MustParsePrefix("100.64.0.0/10")

// autoMode is what status says about automatic bans.
func autoMode(o *ban.Auto) string {
	switch {
	case o == nil:
		return "off"
	case o.Enforce:
		return "enforce"
	}
	return "shadow"
}
