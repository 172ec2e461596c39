// Package mmdb writes small files in the MaxMind format (MMDB), for tests.
package mmdb

import (
	"bytes"
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
	"go4.org/netipx"
)

// Write returns a file that knows the countries of networks, as GeoLite2-Country does. Of two networks that overlap the
// later one counts where it is smaller. A country of "" is a record that says nothing.
func Write(countries map[netip.Prefix]string) []byte {
	// Tests use addresses that are reserved for documentation.
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "Test-Country", RecordSize: 24,
		IncludeReservedNetworks: true})
	larger := func(a, b netip.Prefix) int { return cmp.Compare(a.Bits(), b.Bits()) }
	for _, p := range slices.SortedFunc(maps.Keys(countries), larger) {
		record := mmdbtype.Map{}
		if countries[p] != "" {
			record["country"] = mmdbtype.Map{"iso_code": mmdbtype.String(countries[p])}
		}
		if err == nil {
			err = tree.Insert(netipx.PrefixIPNet(p), record)
		}
	}
	var out bytes.Buffer
	if err == nil {
		_, err = tree.WriteTo(&out)
	}
	if err != nil {
		panic(err) // the networks stand in the test
	}
	return out.Bytes()
}
