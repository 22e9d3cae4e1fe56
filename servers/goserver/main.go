// The file server of Go's standard library with as little around it as possible: a server under test in
// Ropewalk's benchmarks. No access log, no compression; connections are bounded, because without a
// bound it accepts more than it can serve.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen at")
	root := flag.String("root", ".", "folder to serve")
	maxConns := flag.Int("max-conns", 16384, "connections open at once")
	version := flag.Bool("version", false, "print the version of Go")
	flag.Parse()
	if *version {
		fmt.Println(runtime.Version())
		return
	}

	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: direct{http.FileServer(http.Dir(*root))}}
	log.Fatal(server.Serve(&bounded{listener, make(chan struct{}, *maxConns)}))
}

// direct serves index.html by its name too, as others do: a file server sends clients to its
// directory instead.
type direct struct{ http.Handler }

func (d direct) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/index.html") {
		r.URL.Path = strings.TrimSuffix(r.URL.Path, "index.html")
	}
	d.Handler.ServeHTTP(w, r)
}

// bounded accepts a connection when there is a place for it.
type bounded struct {
	net.Listener
	places chan struct{}
}

func (b *bounded) Accept() (net.Conn, error) {
	b.places <- struct{}{}
	conn, err := b.Listener.Accept()
	if err != nil {
		<-b.places
		return nil, err
	}
	return &placed{TCPConn: conn.(*net.TCPConn), free: func() { <-b.places }}, nil
}

// placed gives its place back when it is closed. It is a TCP connection still, so that sendfile(2)
// is used.
type placed struct {
	*net.TCPConn
	once sync.Once
	free func()
}

func (p *placed) Close() error {
	p.once.Do(p.free)
	return p.TCPConn.Close()
}
