package words

// What was refused to parties that ask the daemon.
var (
	ConnectionsRefused = says("connections-refused", "{} holds so many connections to homenode that {} more were refused or closed. Others are answered; the programs that hold the connections can be ended")
	RequestsRefused    = says("requests-refused", "{} asks homenode more often than one party may: {} requests were refused. Others are answered; the program that asks can be ended or asked to wait")
)
