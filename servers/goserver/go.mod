module ropewalk/goserver

go 1.19
