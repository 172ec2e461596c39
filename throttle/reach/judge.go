package reach

// A judgement is what becomes of the recipients of a message.
type judgement struct {
	Verdict
	passed, tried float64  // how many new ones pass, and how many are held or refused, by their weights
	count         Counting // how the new ones are counted
	// bits: which of the first recipients are in the set of known ones, so that Commit need not look again
	known [4]uint64
}

// judge looks at the recipients one by one: with the first one who makes too many in a window the user is flagged, and
// the action holds for that one and all after it. The meter has been brought to now; the flag in it changes. Where
// fates are given, they are what became of the recipients; else they are filled in.
func judge(h *history, m *meter, x *measure, keys []uint64, fates []Fate, given bool) judgement {
	scale := h.scale(x.r, m.at)
	x.blur = scale.blur()
	var array [len(Windows)]Figure
	figures := m.figures(x, array[:0])
	if m.over(x.r, figures) {
		m.lower(m.at)
		m.forget()
	}
	j := judgement{count: scale.count}
	action := x.r.o.Over
	// What was sent before the flag counts too: the thief sent it.
	limited := action == Limit && len(keys) > 0
	spent, passes := limited && m.spent(x.r, m.at), false
	for i, key := range keys {
		known, fresh, weight := scale.weigh(key)
		if m.flagged && weight > 0 && h.wasTried(key) && (action != Limit || spent) {
			weight = 0 // it was counted when it was tried, until the message gets through
		}
		if known && i < 64*len(j.known) {
			j.known[i/64] |= 1 << (i % 64)
		}
		if fresh {
			j.New++
		} else {
			j.Known++
		}
		if weight > 0 {
			for n := range figures {
				f := &figures[n]
				f.New += weight
				if f.New > f.Limit && !m.flagged {
					m.raise(m.at, *f)
					m.sentSince = m.at
					j.Now = true
				}
			}
		}
		fate := Pass
		switch {
		case !m.flagged:
		case action == KnownOnly && fresh:
			fate, j.Cause = Refuse, IsNew
		case action == HoldNew && fresh:
			fate, j.Cause = Hold, IsNew
		case action == Block:
			fate, j.Cause = Refuse, AllBlocked
		case spent:
			fate, j.Cause = Refuse, TooMany
		}
		switch fate {
		case Hold:
			j.Held++
		case Refuse:
			j.Refused++
		}
		if given {
			fate = fates[i]
		} else if fates != nil {
			fates[i] = fate
		}
		if fate == Pass {
			passes = true
			j.passed += weight
		} else {
			j.tried += weight
		}
	}
	if limited && passes {
		m.sent = min(m.sent+1, maxSent)
	}
	j.Flagged, j.Figure = m.flagged, closest(figures)
	return j
}

// closest returns the figure that is closest to its limit, or furthest over it.
func closest(figures []Figure) Figure {
	best := figures[0]
	for _, f := range figures[1:] {
		if f.New*best.Limit > best.New*f.Limit {
			best = f
		}
	}
	return best
}

// in reports whether a recipient is in the set of known ones. Beyond the first ones it does not say.
func (j *judgement) in(i int) bool { return i < 64*len(j.known) && j.known[i/64]>>(i%64)&1 != 0 }
