"""Scripts whose replies are compared with redis-server's, to the byte, each in RESP2 and RESP3."""

# What a script may return, and what becomes of it.
RETURNED = r"""
return nil
return false
return true
return 3
return 3.99
return -3.99
return 1e300
return 0/0
return 'text'
return ''
return 'a\r\nb\0c\255'
return {}
return {1,2,nil,4}
return {nil,4}
return {1,{2,'x',{}},false,true}
return 1,2
return unpack({1,2,3})
return {err='x'}
return {err='X y z'}
return {err='-X y z'}
return {err='a\r\nb'}
return {err=5}
return {ok='fine'}
return {ok='a\r\nb'}
return {ok=5}
return {ok={}}
return {double=3.14}
return {double=3}
return {double=1/0}
return {double='x'}
return {map={a=1}}
return {map={}}
return {map=5}
return {set={a=true}}
return {set={1,2}}
return {set={a=false,b=1}}
return {big_number='123'}
return {big_number='12\r\n3'}
return {big_number=5}
return {verbatim_string={format='txt',string='hi'}}
return {verbatim_string={format='toolong',string='hi'}}
return {verbatim_string={string='hi'}}
return redis.call
return cjson.null
return coroutine.create(function() end)
redis.setresp(3) return true
redis.setresp(3) return false
redis.setresp(3) return {true,false,1}
redis.setresp(3) return nil
return redis.error_reply('boo')
return redis.error_reply('BOO hoo')
return redis.error_reply('-BOO hoo')
return redis.error_reply('')
return redis.error_reply()
return redis.error_reply(1)
return redis.status_reply('TEST')
return redis.status_reply('a','b')
return {1, redis.error_reply('in an array'), redis.status_reply('OK')}
"""

# What a command's reply becomes.
CALLED = r"""
redis.call('hset','h','a','1') redis.call('sadd','s','m') redis.call('zadd','z',1.5,'m') return redis.call('set','n',1)
return redis.call('ping')
return redis.call('ping').ok
return tostring(redis.call('get','nosuch'))
return tostring(redis.call('lpop','nosuch',2))
return type(redis.call('incr','n'))
return redis.call('get','n') + 1
return redis.call('mget','n','nosuch','h')
return redis.call('hgetall','h')
return redis.call('zrange','z',0,-1,'withscores')
redis.setresp(3) return redis.call('hgetall','h')
redis.setresp(3) return redis.call('smembers','s')
redis.setresp(3) return redis.call('zscore','z','m')
redis.setresp(3) return redis.call('zrange','z',0,-1,'withscores')
redis.setresp(3) local r=redis.call('hgetall','h') return {type(r.map), r.map.a}
redis.setresp(3) local r=redis.call('zscore','z','m') return {type(r), type(r.double), tostring(r.double)}
redis.setresp(3) local r=redis.call('smembers','s') return {type(r.set), tostring(r.set.m)}
redis.setresp(3) return tostring(redis.call('get','nosuch'))
redis.setresp(3) redis.setresp(2) return redis.call('hgetall','h')
redis.call('xadd','st','1-1','f','v') return redis.call('xrange','st','-','+')
redis.setresp(3) return redis.call('xread','streams','st','0')
redis.call('xgroup','create','st','g','0') return redis.call('xreadgroup','group','g','c','streams','st','>')
return redis.call('xpending','st','g')[1]
redis.call('set','n',3.5) return redis.call('get','n')
redis.call('set','n',0.1) return redis.call('get','n')
redis.call('set','n',1e20) return redis.call('get','n')
redis.call('set','n',1/0) return redis.call('get','n')
redis.call('set','n',123456789012345678) return redis.call('get','n')
redis.call('SET','bin','a\0b\255\r\n') return redis.call('GET','bin')
redis.call('select',3) redis.call('set','elsewhere','1') return redis.call('dbsize')
return redis.call('exists','elsewhere')
return redis.call('info','nosuch')
return redis.call('publish','a','b')
return redis.call('object','help')[1]
return redis.call('command','count') > 1
return redis.call('time')[1] > '1'
return redis.call('time')[1] == redis.call('time')[1]
return redis.call('xread','streams','st','$')
"""

# What goes wrong, where, and who may catch it.
WRONG = r"""
local x = = 1
return 1 +
return 'unfinished
return foo
foo=1
_G.a=1
_G=nil
KEYS=1
setmetatable(_G,{})
rawset(_G,'x',1)
getmetatable(_G).__index=nil
return getmetatable(_G)
redis.call=1
string.x=1
getmetatable('').__index=1
table.insert(redis, 1)
return redis.call('nosuch')
return redis.call('get')
return redis.call()
return redis.call({})
return redis.call('get',nil)
return redis.call('get',true)
return redis.pcall()
return redis.pcall({})
return redis.pcall('nosuch')
return redis.pcall('set','a')
return redis.pcall('set').err
return redis.call('lpush','a')
redis.call('set','a','1') return redis.call('lpush','a','b')
return redis.pcall('lpush','a','b')
return redis.call('config','nosuch')
return redis.call('config')
return redis.call('xgroup','nosuch','x')
return redis.call('multi')
return redis.call('exec')
return redis.call('watch','a')
return redis.call('subscribe','x')
return redis.call('eval','return 1',0)
return redis.call('evalsha','x',0)
return redis.call('script','load','return 1')
return redis.call('wait',0,0)
return redis.call('auth','x')
return redis.call('hello','3')
return redis.call('reset')
return redis.call('quit')
return redis.call('config','get','x')
return redis.call('client','id')
return redis.call('debug','sleep',0)
return redis.call('role')
return redis.call('shutdown')
return redis.call('acl','whoami')
error('x')
error('x',0)
error('x',2)
error('ERR x',0)
error(5)
error()
error({err='my error'})
error({err='MYCODE my error'})
error(redis.pcall('nosuch'))
error(redis.error_reply('MINE it is'))
local function f() error('deep') end f()
local a\nlocal b\nerror('third line')
local a\n\nreturn redis.call('nosuch')
local t = nil\nreturn t.x
return nil + 1
return 'a' < 1
return {} .. 'x'
return #5
return pairs(5)
return ('x'):nosuch()
return string.rep()
return math.floor('x')
local function f() return f() + 1 end return f()
return pcall(redis.call,'nosuch')
local a,b=pcall(redis.call,'nosuch') return b
local a,b=pcall(redis.call,'lpush','a','b') return b
local a,b=pcall(error,'xx') return b
local a,b=pcall(error,{err='xx'}) return b
local a,b=pcall(error,{'xx'}) return b
local a,b=pcall(function() return foo end) return b
local a,b=pcall(function() error('x',2) end) return b
local a,b=xpcall(function() error('zz') end, function(e) return 'H:'..tostring(e) end) return b
local a,b,c=xpcall(function() return 1,2 end, function(e) end) return {tostring(a),b,c}
local a,b=pcall(pcall) return b
return {pcall(function(...) return ... end, 1, 2, 3)}
local co=coroutine.create(function() return redis.call('nosuch') end) local ok,e=coroutine.resume(co) return e.err
local co=coroutine.wrap(function(a) local b=coroutine.yield(a+1) return b*2 end) return {co(1), co(5)}
local co=coroutine.create(function() end) return {coroutine.status(co), coroutine.resume(co), coroutine.status(co)}
return loadstring('return 1')()
return loadstring('return foo')()
local f,e=loadstring('return +') return e
local f,e=loadstring('return +','@name') return e
return load(function() return nil end)()
local n=0 return load(function() n=n+1 return ({'return ','4','2'})[n] end)()
return dofile
return require
return print
return newproxy
return getfenv
return setfenv
return io
return debug
return package
return python
return module
return redis.sha1hex('')
return redis.sha1hex('text')
return redis.sha1hex(1)
return redis.sha1hex()
return redis.sha1hex('a','b')
return redis.log(1)
return redis.log(9,'x')
return redis.log('a','x')
return redis.log(redis.LOG_WARNING,'x',1)
return redis.setresp(4)
return redis.setresp()
return redis.setresp('3')
return redis.set_repl()
return redis.set_repl(77)
return redis.set_repl(redis.REPL_ALL)
return {redis.REPL_ALL,redis.REPL_AOF,redis.REPL_SLAVE,redis.REPL_REPLICA,redis.REPL_NONE}
return {redis.LOG_DEBUG,redis.LOG_VERBOSE,redis.LOG_NOTICE,redis.LOG_WARNING}
return redis.replicate_commands()
return redis.breakpoint()
return redis.debug('x')
return redis.acl_check_cmd('get','x')
return redis.acl_check_cmd()
return redis.acl_check_cmd('nosuch')
return tostring(5/2)..tostring(1e15)
return string.format('%q %5.2f %d %s', 'a\n"', 1.5, 3, 'x')
return string.rep('x',10,'y')
ARGV[1]='z' return ARGV[1]
return #KEYS + #ARGV
#!lua
#!lua\nreturn 1
#!lua flags=no-writes\nreturn redis.call('set','a',1)
#!lua flags=no-writes\nreturn redis.call('get','a')
#!lua flags=no-writes,allow-oom\nreturn 1
#!lua flags=\nreturn 1
#!lua name=x\nreturn 1
#!lua bad\nreturn 1
#!lua flags=bad\nreturn 1
#!luax\nreturn 1
#!\nreturn 1
#!lua  flags=no-writes\nerror('x')
"""

# The libraries that Redis brings along.
LIBRARIES = r"""
return cjson.encode({1,2,3})
return cjson.encode({})
return cjson.encode({a=1})
return cjson.encode({[1]=1,[2]=2,[4]=4})
return cjson.encode({[1]='a',x='b'}) ~= nil
return cjson.encode('a"b\\c/d\n\t\r\b\f\1\127é')
return cjson.encode(1.5)
return cjson.encode(0.1)
return cjson.encode(1e15)
return cjson.encode(12345678901234567)
return cjson.encode(true)
return cjson.encode(nil)
return cjson.encode(cjson.null)
return cjson.encode({cjson.null, 1})
return cjson.encode({a={b={c={1,{2}}}}})
return cjson.encode({[1.5]='x'})
local s = cjson.encode({[1000]=1}) return s
local s = cjson.encode({[10]=1}) return s
local s = cjson.encode(1/0) return s
local s = cjson.encode(0/0) return s
local s = cjson.encode(print or redis.call) return s
local s = cjson.encode({[true]=1}) return s
local t = {} for i=1,1001 do t={t} end local s = cjson.encode(t) return s
local s = cjson.encode() return s
return cjson.decode('[1,2,3]')
return cjson.decode('{"a":1}').a
return cjson.decode('{"a":{"b":[1,{"c":"d"}]}}').a.b[2].c
return cjson.decode(' [ 1 , 2.5 , -3e2 , "x" , true , false ] ')
return tostring(cjson.decode('null') == cjson.null)
return cjson.decode('"a\\u00e9\\u20ac\\ud83d\\ude00\\n\\/"')
return cjson.decode('[[],{},[[]]]')
return cjson.decode('"text"')
return cjson.decode('12')
return #cjson.decode('[1,null,3]')
local t = cjson.decode('') return t
local t = cjson.decode('[1,') return t
local t = cjson.decode('[1 2]') return t
local t = cjson.decode('{1:2}') return t
local t = cjson.decode('{"a" 2}') return t
local t = cjson.decode('{"a":2,}') return t
local t = cjson.decode('{"a":2 "b":3}') return t
local t = cjson.decode('"abc') return t
local t = cjson.decode('"\\x"') return t
local t = cjson.decode('"\\u12g4"') return t
local t = cjson.decode('nul') return t
local t = cjson.decode('1 2') return t
local t = cjson.decode('[1]]') return t
local t = cjson.decode(('['):rep(1001)) return t
local t = cjson.decode(nil) return t
return cmsgpack.pack(1,-1,127,128,-32,-33,255,256,65535,65536,-128,-129,-32768,-32769)
return cmsgpack.pack(4294967295,4294967296,-2147483648,-2147483649,9007199254740992,-9007199254740992)
return cmsgpack.pack(1.5,0.1,-2.25,1e100)
return cmsgpack.pack(true,false,nil,'','abc',('x'):rep(31),('y'):rep(32),('z'):rep(300))
return cmsgpack.pack({},{1,2,3},{a=1},{{1},{b={2}}})
return cmsgpack.pack({1,2,[4]=4}) ~= nil
return #cmsgpack.pack(('x'):rep(70000))
return {cmsgpack.unpack(cmsgpack.pack(1,-1,'x',1.5,true,{1,{2}}))}
return cmsgpack.unpack(cmsgpack.pack({a={b='c'}})).a.b
return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3))}
return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3), 2)}
return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3), 2)}
return {cmsgpack.unpack('\202\63\192\0\0')}
return tostring(cmsgpack.unpack('\207\0\32\0\0\0\0\0\0'))
return tostring(cmsgpack.unpack('\211\255\255\255\255\255\255\255\254'))
return tostring(cmsgpack.unpack('\211\128\0\0\0\0\0\0\0'))
local v = cmsgpack.unpack('\193') return v
local v = cmsgpack.unpack('\163ab') return v
local v = cmsgpack.unpack('\147\1') return v
local v = {cmsgpack.unpack('')} return v
return {bit.band(0xff,0x0f),bit.bor(1,2,4),bit.bxor(5,1),bit.bnot(0),bit.tobit(0xffffffff),bit.tobit(2^31)}
return {bit.lshift(1,31),bit.lshift(1,33),bit.rshift(-1,28),bit.arshift(-16,2)}
return {bit.rol(0x12345678,12),bit.ror(0x12345678,12),bit.rol(1,0),bit.ror(1,0)}
return {bit.bswap(0x12345678),bit.tohex(255),bit.tohex(-1,4),bit.tohex(255,-4),bit.band('7',3)}
"""


def lines(text: str) -> list[str]:
    r"""Return the scripts of a text, one on each line; where a script has lines of its own, they are written as \n."""
    return [
        line.replace("\\n", "\n") if "\\nreturn" in line or "\\nlocal" in line or "\\nerror" in line else line
        for line in text.strip().split("\n")
    ]
