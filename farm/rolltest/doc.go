// Package rolltest is for tests of a farm behind a balancer whose nodes are replaced under load: HAProxy in front of
// the nodes, and customers who pay for each page and then try to use their stamps again.
package rolltest
