package admission

// noteAway queues a note for the other nodes: a client was turned away, or has come in since. There is none for clients
// that are known by their account, as their keys differ from node to node.
func (l *Lanes) noteAway(who client, in bool) {
	f := l.farm
	if f == nil || f.alone || len(f.away) >= maxAway || who.family != 4 && who.family != 6 {
		return
	}
	f.away = append(f.away, awayNote{who, in})
}

// awayNews appends messages with the notes that wait.
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

// hearAway merges the notes of another node. A client that was turned away there is not new demand here, and a client
// that has come in there is no longer outside.
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
