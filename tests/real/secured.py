"""Settings for brokers that require signed requests and use TLS, and their users."""

from pathlib import Path

import trustme

from mq_client.acl import Credentials

PROVIDERS = "org.apache.rocketmq.auth.authentication.provider."
SECURED = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{PROVIDERS}DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{PROVIDERS}LocalAuthenticationMetadataProvider",
    "initAuthenticationUser": '{"username":"keeper","password":"secret-of-keeper"}',
    "innerClientAuthenticationCredentials": (
        '{"accessKey":"keeper","secretKey":"secret-of-keeper"}'
    ),
}
KEEPER = Credentials("keeper", "secret-of-keeper")


def tls_options(authority: trustme.CA, place: Path) -> list[str]:
    """Return Java options that give a broker a certificate of this authority."""
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    certificate.private_key_pem.write_to_path(place / "key.pem")
    for pem in certificate.cert_chain_pems:
        pem.write_to_path(place / "cert.pem", append=True)
    settings = place / "tls.properties"
    settings.write_text(
        f"tls.test.mode.enable=false\ntls.server.need.client.auth=none\n"
        f"tls.server.keyPath={place / 'key.pem'}\ntls.server.certPath={place / 'cert.pem'}\n"
    )
    return [f"-Dtls.config.file={settings}", "-Dtls.server.mode=permissive"]
