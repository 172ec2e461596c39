package reach

// A judgement says what becomes of the recipients of a message.
type judgement struct {
	Verdict
	passed float64  // the weights of the new recipients that pass
	tried  float64  // the weights of the new recipients that are held or refused
	count  Counting // how new recipients are counted
	// A bit for each of the first 256 recipients: it is in the set of known ones. So Commit need not look again.
	known [4]uint64
}

// judge looks at the recipients one by one. The first new one that exceeds the limit of a window flags the user in the
// meter, and the action applies to that recipient and to all after it. The meter has been brought to now before. If
// given is true, fates say what became of the recipients. Otherwise judge fills them in, unless fates is nil.
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
	// What was sent before the user was flagged counts too, as the thief sent it.
	limited := action == Limit && len(keys) > 0
	spent, passes := limited && m.spent(x.r, m.at), false
	for i, key := range keys {
		known, fresh, weight := scale.weigh(key)
		if m.flagged && weight > 0 && h.wasTried(key) && (action != Limit || spent) {
			weight = 0 // it was counted when it was tried first
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

// in reports whether a recipient is in the set of known ones. For any but the first 256 it is false.
func (j *judgement) in(i int) bool { return i < 64*len(j.known) && j.known[i/64]>>(i%64)&1 != 0 }
