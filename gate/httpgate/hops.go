package httpgate

import "strings"

// hopsHeader says by how many gates a request has come. Every gate adds one, whoever wrote it: a client that writes a
// number only shortens its own way, and no client can keep the number of a request that comes around small.
const hopsHeader = "Weir-Hops"

// maxHops is by how many gates a request may come. One that has come by as many is in a loop.
const maxHops = 8

// written are the numbers that a gate may write.
var written = [...]string{"1", "2", "3", "4", "5", "6", "7", "8"}

// hops returns by how many gates the request has come: the largest number, as others may have added to the list.
func (x *exchange) hops() (most int) {
	for _, list := range x.fields.Values(hopsHeader) {
		for number := range strings.SplitSeq(list, ",") {
			n := 0
			for _, c := range []byte(strings.Trim(number, " \t")) {
				if c < '0' || c > '9' {
					n = 0
					break
				}
				n = min(10*n+int(c-'0'), maxHops)
			}
			most = max(most, n)
		}
	}
	return most
}
