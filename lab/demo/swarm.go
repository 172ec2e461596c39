package demo

import (
	"context"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"weir/throttle/stamp/payer"
)

// swarm is how a flood enters that does not pay: each of its workers keeps a connection, and they come from as many
// addresses, of 10.0.0.0/16. It does nothing with what it is asked.
func swarm(s *Stage) (func(context.Context) Result, func()) {
	transport := &http.Transport{MaxIdleConnsPerHost: stampFlooders, DisableCompression: true}
	client := &http.Client{Transport: transport, Timeout: stampGiveUp}
	var number atomic.Uint32
	return func(ctx context.Context) Result {
		n := number.Add(1) % stampFlooders
		return asked(ask(ctx, client, s.GateURL(0), netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), "*/*"))
	}, transport.CloseIdleConnections
}

// bots is how a flood enters that pays, by programs each of which has an address and the processor of a phone. A bot
// has so many requests under way at a time, and makes one stamp at a time for all of them.
func bots(s *Stage) (func(context.Context) Result, func()) {
	transport := &http.Transport{MaxIdleConnsPerHost: stampBots * stampTogether, DisableCompression: true}
	type bot struct {
		client *http.Client
		from   netip.Addr
	}
	paid := &s.Props.(*spending).bots
	paid.Store(0)
	idle := make(chan bot, stampBots*stampTogether)
	for i := range stampBots {
		b := bot{from: netip.AddrFrom4([4]byte{10, 1, 0, byte(1 + i)}),
			client: &http.Client{Timeout: patience, Transport: &payer.Transport{
				Base: transport, Workers: 1, Paid: func(_ string, p payer.Payment) { time.Sleep(asPhone(p, paid)) },
			}}}
		for range stampTogether {
			idle <- b
		}
	}
	return func(ctx context.Context) Result {
		b := <-idle
		defer func() { idle <- b }()
		return asked(ask(ctx, b.client, s.GateURL(0), b.from, "*/*"))
	}, transport.CloseIdleConnections
}

// asked says what an answer means to whoever does not pay: to be asked for a stamp is to be refused.
func asked(status int, h http.Header, err error) Result {
	switch {
	case err != nil:
		return Failed
	case h.Get(payer.ChallengeHeader) != "":
		return Refused
	}
	return answered(status)
}
