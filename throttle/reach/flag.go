package reach

// A flag is what holds for a user over the threshold.
type flag struct {
	flagged   bool
	operator  bool  // somebody set it, and only somebody ends it
	flagSince int64 // seconds
	by        Figure
	ended     int64 // when the last one ended
	sentSince int64 // when the period of the limit began
	sent      int   // messages that passed in it, also before the flag: only where a limit is what holds
	before    int   // messages in the period before it, where no flag held then
}

// maxSent is how far messages are counted. A limit is lower.
const maxSent = 1 << 30

func (f *flag) raise(now int64, by Figure) {
	f.flagged, f.operator, f.flagSince, f.by = true, false, now, by
}

// lower ends a flag. What was sent stays: the next flag may come soon.
func (f *flag) lower(now int64) {
	*f = flag{ended: now, sentSince: f.sentSince, sent: f.sent, before: f.before}
}

// spent reports whether a user has sent as many messages as a flagged user may, and lets the period of the limit pass.
// Before the flag, the previous period counts too: else a user flagged at the end of a period could send again at once.
func (f *flag) spent(r *Rules, now int64) bool {
	switch past := now - f.sentSince; {
	case past < r.per:
	case past < 2*r.per && !f.flagged:
		f.sentSince, f.sent, f.before = f.sentSince+r.per, 0, f.sent
	default:
		f.sentSince, f.sent, f.before = now, 0, 0
	}
	return int64(f.sent+f.before) >= r.o.Limit.Count
}

// merge takes over the later flag, or end of a flag. An operator's flag on either side stays an operator's.
func (f *flag) merge(o *flag) {
	ended := max(f.ended, o.ended)
	operator := f.flagged && f.operator || o.flagged && o.operator
	if o.last() > f.last() || o.last() == f.last() && o.flagged {
		*f = *o
	}
	f.ended = ended
	f.operator = f.flagged && operator
}

// last is when the flag was set, or when the last one ended.
func (f *flag) last() int64 {
	if f.flagged {
		return f.flagSince
	}
	return f.ended
}

// over reports whether a flag has held as long as it must, and the rate has fallen in every window.
func (m *meter) over(r *Rules, figures []Figure) bool {
	if !m.flagged || m.operator || m.at-m.flagSince < r.hold {
		return false
	}
	for _, f := range figures {
		if f.New >= r.until*f.Limit {
			return false
		}
	}
	return true
}
