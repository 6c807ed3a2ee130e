package relay

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// HostNames is an Upstream that asks whom the host asks: its file of hosts, then
// its name servers. Both files are read again when they are some seconds old.
type HostNames struct {
	Hosts  string // the path of the file of hosts: /etc/hosts
	Config string // that of the resolver's: /etc/resolv.conf

	mu      sync.Mutex
	read    time.Time               // guarded by mu
	hosts   map[string][]netip.Addr // guarded by mu
	servers []string                // guarded by mu
}

const (
	hostFilesAge  = 5 * time.Second
	serverTimeout = 2 * time.Second
	hostsTTL      = 60
)

// Exchange implements Upstream.
func (h *HostNames) Exchange(ctx context.Context, query *dns.Msg) (*dns.Msg, error) {
	hosts, servers := h.files()
	if reply := fromHosts(hosts, query); reply != nil {
		return reply, nil
	}
	err := errors.New("the host has no name server")
	for _, server := range servers {
		var reply *dns.Msg
		if reply, err = exchange(ctx, query, server); err == nil {
			return reply, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// exchange asks one server, by TCP where the answer is too long for a datagram.
func exchange(ctx context.Context, query *dns.Msg, server string) (*dns.Msg, error) {
	client := &dns.Client{Timeout: serverTimeout, UDPSize: 1232}
	query = query.Copy()
	query.Id = dns.Id()
	query.SetEdns0(1232, false)
	reply, _, err := client.ExchangeContext(ctx, query, server)
	if err == nil && reply.Truncated {
		client.Net = "tcp"
		reply, _, err = client.ExchangeContext(ctx, query, server)
	}
	return reply, err
}

func (h *HostNames) files() (map[string][]netip.Addr, []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.read) > hostFilesAge {
		h.hosts, h.servers, h.read = readHosts(h.Hosts), readServers(h.Config), time.Now()
	}
	return h.hosts, h.servers
}

func readServers(path string) []string {
	config, err := dns.ClientConfigFromFile(path)
	if err != nil {
		return nil
	}
	var servers []string
	for _, server := range config.Servers {
		servers = append(servers, net.JoinHostPort(server, config.Port))
	}
	return servers
}

func readHosts(path string) map[string][]netip.Addr {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	hosts := make(map[string][]netip.Addr)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		addr, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		for _, name := range fields[1:] {
			name = strings.ToLower(name)
			hosts[name] = append(hosts[name], addr.Unmap())
		}
	}
	return hosts
}

// fromHosts answers a query for an address from the file of hosts, or returns nil.
func fromHosts(hosts map[string][]netip.Addr, query *dns.Msg) *dns.Msg {
	asked := query.Question[0]
	addrs, known := hosts[strings.ToLower(strings.TrimSuffix(asked.Name, "."))]
	if !known {
		return nil
	}
	reply := new(dns.Msg)
	reply.SetReply(query)
	for _, addr := range addrs {
		header := dns.RR_Header{Name: asked.Name, Rrtype: asked.Qtype, Class: dns.ClassINET, Ttl: hostsTTL}
		switch {
		case addr.Is4() && asked.Qtype == dns.TypeA:
			reply.Answer = append(reply.Answer, &dns.A{Hdr: header, A: addr.AsSlice()})
		case addr.Is6() && asked.Qtype == dns.TypeAAAA:
			reply.Answer = append(reply.Answer, &dns.AAAA{Hdr: header, AAAA: addr.AsSlice()})
		}
	}
	return reply
}
