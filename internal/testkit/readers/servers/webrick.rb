# Ruby's WEBrick and CGI::Cookie. Answers with what it reads. Usage: webrick.rb PORT
require "cgi"
require "json"
require "webrick"

server = WEBrick::HTTPServer.new(BindAddress: "127.0.0.1", Port: ARGV[0].to_i, AccessLog: [],
                                 Logger: WEBrick::Log.new(File::NULL))

# A servlet that takes every method.
class Reader < WEBrick::HTTPServlet::AbstractServlet
  def service(request, response)
    env = request.meta_vars
    read = {
      path: request.path,
      query: request.query_string ? CGI.parse(request.query_string)["key"].first.to_s : "",
      cookie: CGI::Cookie.parse(request["Cookie"] || "")["session"].first.to_s,
      header: env["HTTP_X_API_KEY"].to_s,
      method: request.request_method,
      override: env["HTTP_X_HTTP_METHOD_OVERRIDE"].to_s,
      host: request.host.to_s
    }
    response.body = JSON.generate(read.transform_values { |v| v.dup.force_encoding("UTF-8").scrub })
  end
end
server.mount("/", Reader)
server.start
