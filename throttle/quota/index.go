package quota

// An index finds accounts by hash: a table with linear probing, as the hash is keyed and spreads well. A look costs one
// cache line, that of the pointer: the tags of 100,000 accounts fit into the cache of a core. A hash is in it once.
type index struct {
	tags     []uint8    // a part of the hash; 0 where there is no account
	accounts []*account // a power of two, at most 7/8 full
	n        int
}

// home is where a hash belongs. The low bits have chosen the shard already.
func (x *index) home(hash uint64) int { return int(hash>>8) & (len(x.tags) - 1) }

// tagOf is the part of a hash that does not choose the position.
func tagOf(hash uint64) uint8 { return uint8(hash>>56) | 1 }

func (x *index) get(hash uint64) *account {
	if len(x.tags) == 0 {
		return nil
	}
	for i, tag := x.home(hash), tagOf(hash); x.tags[i] != 0; i = (i + 1) & (len(x.tags) - 1) {
		if x.tags[i] == tag && x.accounts[i].hash == hash {
			return x.accounts[i]
		}
	}
	return nil
}

func (x *index) put(a *account) {
	if 8*(x.n+1) > 7*len(x.tags) {
		old := x.accounts
		x.tags, x.accounts = make([]uint8, max(8, 2*len(old))), make([]*account, max(8, 2*len(old)))
		for _, a := range old {
			if a != nil {
				x.insert(a)
			}
		}
	}
	x.n++
	x.insert(a)
}

func (x *index) insert(a *account) {
	i := x.home(a.hash)
	for x.tags[i] != 0 {
		i = (i + 1) & (len(x.tags) - 1)
	}
	x.tags[i], x.accounts[i] = tagOf(a.hash), a
}

// remove takes an account out that is there, and closes the gap so that everything behind it is still found.
func (x *index) remove(a *account) {
	mask := len(x.tags) - 1
	gap := x.home(a.hash)
	for x.accounts[gap] != a {
		gap = (gap + 1) & mask
	}
	for i := (gap + 1) & mask; x.tags[i] != 0; i = (i + 1) & mask {
		// An account may fill the gap unless it belongs somewhere between the gap and where it stands.
		if home := x.home(x.accounts[i].hash); (i-home)&mask >= (i-gap)&mask {
			x.tags[gap], x.accounts[gap], gap = x.tags[i], x.accounts[i], i
		}
	}
	x.tags[gap], x.accounts[gap] = 0, nil
	x.n--
}
