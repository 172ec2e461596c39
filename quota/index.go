package quota

// An index finds accounts by hash. It is a plain table with linear probing: the hash is keyed and spreads well, and one look
// costs one cache line, where a map costs two. Of two accounts with the same hash it holds one.
type index struct {
	entries []entry // a power of two, at most three quarters full
	n       int
}

type entry struct {
	hash uint64
	*account
}

// place is where a hash belongs. The low bits have chosen the shard already.
func (x *index) place(hash uint64) int { return int(hash>>8) & (len(x.entries) - 1) }

func (x *index) get(hash uint64) *account {
	if len(x.entries) == 0 {
		return nil
	}
	for i := x.place(hash); ; i = (i + 1) & (len(x.entries) - 1) {
		if e := &x.entries[i]; e.account == nil || e.hash == hash {
			return e.account
		}
	}
}

// put adds an account whose hash is not there.
func (x *index) put(hash uint64, a *account) {
	if 4*(x.n+1) > 3*len(x.entries) {
		old := x.entries
		x.entries = make([]entry, max(8, 2*len(old)))
		for _, e := range old {
			if e.account != nil {
				x.insert(e)
			}
		}
	}
	x.n++
	x.insert(entry{hash, a})
}

func (x *index) insert(e entry) {
	i := x.place(e.hash)
	for x.entries[i].account != nil {
		i = (i + 1) & (len(x.entries) - 1)
	}
	x.entries[i] = e
}

// remove takes a hash out that is there, and closes the gap so that everything behind it is still found.
func (x *index) remove(hash uint64) {
	mask := len(x.entries) - 1
	gap := x.place(hash)
	for x.entries[gap].hash != hash {
		gap = (gap + 1) & mask
	}
	for i := (gap + 1) & mask; x.entries[i].account != nil; i = (i + 1) & mask {
		// An entry may fill the gap unless it belongs somewhere between the gap and where it stands.
		if home := x.place(x.entries[i].hash); (i-home)&mask >= (i-gap)&mask {
			x.entries[gap], gap = x.entries[i], i
		}
	}
	x.entries[gap] = entry{}
	x.n--
}
