package admission

// noteAway adds a client that was turned away, or has come in since, to what the others are told. A client that is
// known by its account is another one at each node.
func (l *Lanes) noteAway(who client, in bool) {
	f := l.farm
	if f == nil || f.alone || len(f.away) >= maxAway || who.family != 4 && who.family != 6 {
		return
	}
	f.away = append(f.away, awayNote{who, in})
}

// awayNews adds what became of clients that were turned away to messages.
func (l *Lanes) awayNews(msgs [][]byte) [][]byte {
	f := l.farm
	out := outbox{msgs: msgs}
	for i := range f.away {
		out.room(awayBytes, func(b []byte) []byte { return append(b, wireVersion, kindAway) })
		out.msg = f.away[i].append(out.msg)
	}
	out.end()
	f.away = f.away[:0]
	return out.msgs
}

// hearAway takes over which clients other nodes turned away: wherever those come next, they are no new demand, and when
// they come in, they are not outside any more.
func (l *Lanes) hearAway(body []byte, at int64) error {
	if len(body)%awayBytes != 0 {
		return errMessage
	}
	for ; len(body) > 0; body = body[awayBytes:] {
		n, err := parseAway(body[:awayBytes])
		if err != nil {
			return err
		}
		if n.in {
			l.away.back(n.client, at)
		} else {
			l.away.note(n.client, at)
		}
	}
	return nil
}
