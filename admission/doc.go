// Package admission stands in front of an upstream that can work on so many requests at once, and says who goes next.
//
// There are two lanes. In the stamped lane wait those who paid: clients take turns, and the work paid for each use
// ranks. In the general pool wait all others, and clients take turns as well. A client is an account that the
// upstream has accepted, else an address. A place that becomes free goes to the next in line at once, never to a
// newcomer, and never waits for somebody who is away. When both lanes wait, the stamped lane goes first; the pool is
// guaranteed a share of the capacity all the same, counted in time and not in requests, unless strict says otherwise.
// While stamps are asked for, Take decides which unpaid events the pool accepts.
//
// People without JavaScript do not wait in a lane but in a waiting room: a page that reloads. Their signed ticket
// (Tickets) says their number, and nothing is stored for it. Only a ticket that is shown (Lanes.Take) gets a place in
// the line, in the order of numbers, and keeps it by being shown again. Those called are let in through the general
// pool.
//
// Lanes also measure how much is asked of the upstream in proportion to what it can do (Lanes.Load), and how long
// those wait who paid: that is what the price of a stamp follows. What the upstream can do is written by the
// operator, or learnt from how long requests take, in the manner of TCP Vegas (Brakmo and Peterson, 1994) and of
// Netflix' concurrency-limits: more at once as long as requests take no longer for it. Now and then less is let
// through for a moment, as TCP BBR does, to see how long a request takes by itself.
//
// Most callers want New and put the Lanes last into a chain, and call Advance when Alarm said so. All methods are safe
// for concurrent use, and time is always passed in. An event that is let in at once allocates nothing.
package admission
